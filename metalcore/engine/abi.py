"""What emitted kernels and the C runtime share: the structs of runtime/native/abi.h and the head of sanitize.h.

A test asks the C compiler where every field lies.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_uint64, c_void_p

from metalcore.engine.model import LANES as LANES

BUFFERS = 31
FRAME_ALIGN = 128
GROUP_MEMORY_ALIGN = 64
LOAD, STORE, ATOMIC, ATOMIC_LOAD = 0, 1, 2, 3
NO_FRAMES, APART_AT_BARRIERS = 1, 2  # enum mc_left_out
GROUP_ROOT, ANY_ROOT = 31, 32
SIMDGROUPS = 32  # of a threadgroup


class Access(ctypes.Structure):
    _fields_ = [
        ("site", c_uint32),
        ("mask", c_uint32),
        ("elem_size", c_uint32),
        ("is_store", c_uint32),
        ("base_thread", c_uint32),
        ("group", c_uint32 * 3),
        ("addr", c_void_p * LANES),
        ("lo", c_void_p * LANES),
        ("hi", c_void_p * LANES),
        ("data", c_void_p),
    ]


class Error(ctypes.Structure):
    _fields_ = [
        ("claimed", c_uint32),
        ("site", c_uint32),
        ("kind", c_uint32),
        ("group", c_uint32 * 3),
        ("thread_index", c_uint32),
        ("count", c_uint64),
        ("addr", c_void_p),
        ("lo", c_void_p),
        ("hi", c_void_p),
    ]


class Finding(ctypes.Structure):
    _fields_ = [("count", c_uint64), ("group", c_uint32 * 3), ("thread_index", c_uint32)]


class Saying(ctypes.Structure):
    _fields_ = [
        ("place", c_uint32),
        ("lanes", c_uint32),
        ("group", c_uint32 * 3),
        ("first_thread", c_uint32),
        ("values", c_uint64 * LANES),
    ]


class Said(ctypes.Structure):
    """Its head: sayings lie behind it."""

    _fields_ = [("capacity", c_uint64), ("count", c_uint64)]


class Region(ctypes.Structure):
    _fields_ = [("lo", c_void_p), ("hi", c_void_p), ("is_writable", c_uint64)]


class Launch(ctypes.Structure):
    _fields_ = [
        ("buffers", c_void_p * BUFFERS),
        ("sizes", c_uint64 * BUFFERS),
        ("grid", c_uint32 * 3),
        ("groups", c_uint32 * 3),
        ("group", c_uint32 * 3),
        ("tg_offset", c_uint32 * BUFFERS),
        ("tg_size", c_uint32 * BUFFERS),
        ("group_memory_size", c_uint32),
        ("stop", c_void_p),
        ("slow_access", c_void_p),
        ("grow_frames", c_void_p),
        ("regions", c_void_p),
        ("n_regions", c_uint64),
        ("error", Error),
        ("report", c_void_p),
        ("findings", c_void_p),
        ("sanitizer", c_void_p),
        ("is_cached", c_uint64),
        ("stack_size", c_uint64),
        ("left_out", c_uint64),
        ("read_only", c_uint64),
        ("tell", c_void_p),
        ("said", c_void_p),
    ]


class Worker(ctypes.Structure):
    _fields_ = [
        ("launch", c_void_p),
        ("group_memory", c_void_p),
        ("frame_cur", c_void_p),
        ("frame_end", c_void_p),
        ("group_pos", c_uint32 * 3),
    ]


class Stop(ctypes.Structure):
    _fields_ = [("word", c_uint32), ("zero", c_uint32), ("attend", c_void_p)]


HOOKS = (  # functions of sanitize mode, in the order of mc_sanitizer
    *("row", "lanes", "matrix", "barrier", "simdgroup_barrier", "fence"),
    *("begin_group", "end_simdgroup", "shuffle", "unset", "set_memory", "loop", "read_row", "write_row"),
)


class Sanitizer(ctypes.Structure):
    """Its head, which kernels see."""

    _fields_ = [
        ("roots", c_void_p * (ANY_ROOT + 1)),
        ("order", c_uint32 * SIMDGROUPS),
        *((name, c_void_p) for name in HOOKS),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "mc_access": Access,
    "mc_error": Error,
    "mc_finding": Finding,
    "mc_region": Region,
    "mc_saying": Saying,
    "mc_said": Said,
    "mc_stop": Stop,
    "mc_launch": Launch,
    "mc_worker": Worker,
}


def offset(struct: type[ctypes.Structure], field: str) -> int:
    return int(getattr(struct, field).offset)
