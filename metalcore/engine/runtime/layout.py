"""The structs of the C runtime as ctypes sees them, offset by offset; engine/abi.py has those that kernels see."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_uint8, c_uint32, c_uint64, c_void_p

from metalcore.engine import abi
from metalcore.engine.abi import (
    ANY_ROOT as ANY_ROOT,
)
from metalcore.engine.abi import (
    ATOMIC as ATOMIC,
)
from metalcore.engine.abi import (
    ATOMIC_LOAD as ATOMIC_LOAD,
)
from metalcore.engine.abi import (
    BUFFERS as BUFFERS,
)
from metalcore.engine.abi import (
    FRAME_ALIGN as FRAME_ALIGN,
)
from metalcore.engine.abi import (
    GROUP_MEMORY_ALIGN as GROUP_MEMORY_ALIGN,
)
from metalcore.engine.abi import (
    GROUP_ROOT as GROUP_ROOT,
)
from metalcore.engine.abi import (
    LANES as LANES,
)
from metalcore.engine.abi import (
    LOAD as LOAD,
)
from metalcore.engine.abi import (
    STORE as STORE,
)
from metalcore.engine.abi import (
    Access as Access,
)
from metalcore.engine.abi import (
    Error as Error,
)
from metalcore.engine.abi import (
    Finding as Finding,
)
from metalcore.engine.abi import (
    Launch as Launch,
)
from metalcore.engine.abi import (
    Region as Region,
)
from metalcore.engine.abi import (
    Said as Said,
)
from metalcore.engine.abi import (
    Saying as Saying,
)
from metalcore.engine.abi import (
    Worker as Worker,
)

# Why an access of a known place was refused, added to those.
READ_ONLY, MISALIGNED = 1 << 8, 2 << 8

# Results of mc_call and mc_call_objects, and kinds of mc_rule, as in native/runtime.h.
STOPPED, FAULT, NO_MEMORY, NOT_SIMPLE, TOO_WIDE, TOO_SMALL, RAISED, TIMED_OUT = 1, 2, 4, 8, 16, 32, 64, 128
APART = 256
RULE_NONE, RULE_ARRAY, RULE_FLOAT, RULE_INTEGER = 0, 1, 2, 3
DECLARED, STORAGE, ELEMENTS = 0, 1, 2  # how arrays are taken
# A size with this bit: the address is an offset into the packed arguments.
INLINE = 1 << 63
# A size with this bit: the memory may not be written.
FIXED = 1 << 62


def size_of_sayings(count: int) -> int:
    """Bytes of a `Said` with room for so many."""
    return ctypes.sizeof(Said) + count * ctypes.sizeof(Saying)


class Plan(ctypes.Structure):
    _fields_ = [
        ("launch", Launch),
        ("main_fn", c_void_p),
        ("edge_fn", c_void_p),
        ("cost", c_void_p),
        ("rules", c_void_p),
        ("n_slots", c_uint32),
        ("written", c_uint32),
        ("is_brief", c_uint32),
        ("wide_from", c_uint64),
    ]


EVENTS = 512
NO_SITE = 1023
# Kinds of mc_event, in the order of native/sanitize.h, as the ids of diagnostics/kinds.py.
EVENT_KINDS = (
    "out-of-bounds",
    "race",
    "race-between-threadgroups",
    "same-value-race",
    "simdgroup-race",
    "wrong-fence",
    "barrier-divergence",
    "uninitialised-threadgroup-memory",
    "uninitialised-output",
    "unwritten-output",
    "inactive-lane",
)


class Event(ctypes.Structure):
    _fields_ = [
        ("count", c_uint64),
        ("address", c_uint64),
        ("other_address", c_uint64),
        ("size", c_uint64),
        ("kind", c_uint32),
        ("site", c_uint32),
        ("other_site", c_uint32),
        ("root", c_uint32),
        ("access", c_uint32),
        ("other_access", c_uint32),
        ("thread", c_uint32),
        ("other_thread", c_uint32),
        ("group", c_uint32 * 3),
        ("other_group", c_uint32 * 3),
    ]


class Options(ctypes.Structure):
    """What sanitize mode is asked for, and what it found."""

    _fields_ = [
        ("seed", c_uint64),
        ("is_shuffled", c_uint32),
        ("fresh", c_uint32),
        ("unwritten", c_uint32),
        ("n_events", c_uint32),
        ("lost", c_uint64),
        ("shadow_bytes", c_uint64),
        ("granule", c_uint8 * (BUFFERS + 1)),
        ("events", Event * EVENTS),
    ]


class Rule(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32),
        ("format", c_uint32),
        ("misaligned", c_uint32),
        ("size", c_uint32),
        ("low", c_int64),
        ("high", c_int64),
        ("needed", c_uint64),
        ("is_optional", c_uint32),
        ("is_writable", c_uint32),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    **abi.STRUCTS,
    "mc_plan": Plan,
    "mc_rule": Rule,
    "mc_event": Event,
    "mc_options": Options,
}


def offset(struct: str, field: str) -> int:
    """Byte offset of a field, by its C names: offset("mc_launch", "sizes") is 248."""
    return abi.offset(STRUCTS[struct], field)
