"""What the function of a simdgroup gets, and what it has at its top, by name."""

from __future__ import annotations

from metalcore.engine import abi
from metalcore.engine.ir import I1, I32, PTR

from .builder import Builder
from .operands import Operand

LAUNCH, WORKER = Operand("%L", PTR), Operand("%Wk", PTR)  # mc_launch, mc_worker
GROUP = tuple(Operand(name, I32) for name in ("%gx", "%gy", "%gz"))  # threadgroup_position_in_grid
SIZE = tuple(Operand(name, I32) for name in ("%w", "%h", "%d"))  # of this threadgroup
SIMDGROUP = Operand("%sg", I32)
BITS = Operand("%bits", I32)  # lanes that there are
ALONE = Operand("%alone", I1)  # the threadgroup has no other simdgroup
FIRST = tuple(Operand(name, I32) for name in ("%lx", "%ly", "%lz"))  # position in the group of the first thread
ALL = Operand("%all", I32)  # simdgroups of the threadgroup, where one function runs them

FIRST_THREAD = Operand("%first_thread", I32)  # its index in the group
GROUP_MEMORY = Operand("%group_memory", PTR)
STOP_AT, STOP = Operand("%stop_at", PTR), Operand("%stop", PTR)
OWN = Operand("%own", PTR)  # its part of what is kept where simdgroups take turns
ALL_INSIDE = Operand("%all_inside", I1)  # the flag of proofs.py
PRIVATE = Operand("%private", PTR)  # private arrays, behind a coroutine's frame


def of_launch(field: str) -> int:
    """Where a field of mc_launch lies."""
    return abi.offset(abi.Launch, field)


def of_worker(field: str) -> int:
    return abi.offset(abi.Worker, field)


def of_sanitizer(field: str) -> int:
    return abi.offset(abi.Sanitizer, field)


def load_frame(code: Builder) -> None:
    """What the launch and the worker have for every simdgroup."""
    code.as_(GROUP_MEMORY).load(PTR, code.gep(WORKER, of_worker("group_memory")), invariant=True)
    code.as_(STOP).load(PTR, code.as_(STOP_AT).gep(LAUNCH, of_launch("stop")), invariant=True)


def parameters(*given: Operand) -> str:
    return ", ".join(f"{one.type} {one}" for one in given)
