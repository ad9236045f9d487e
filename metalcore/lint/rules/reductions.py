"""uncombined-simd-reduction: simd_sum over a threadgroup of several simdgroups, and nothing that adds them up."""

from __future__ import annotations

import re

from metalcore.engine.ir import Instr
from metalcore.lint.context import Context
from metalcore.lint.divergence import Divergence
from metalcore.lint.program import Program, attribute, constant
from metalcore.lint.rules.barriers import SIMD_WIDTH
from metalcore.lint.slices import attributes, leads_to, made_of

_REDUCTION = re.compile(r"__mc_simd_(sum|product|min|max|and|or|xor)_[a-z0-9]+")
_AWARE = re.compile(r"simdgroup_index_in_\w+|\w*simdgroups_per_\w+|threads_per_simdgroup|quadgroup\w+")
_GROUP_WIDE = ("thread_position_in_threadgroup", "thread_position_in_grid", "thread_index_in_threadgroup")
_BY_32 = {("udiv", 32), ("sdiv", 32), ("lshr", 5), ("ashr", 5), ("and", 31), ("urem", 32), ("srem", 32)}


def check(context: Context, program: Program) -> None:
    """A reduction whose operand spans the threadgroup, in a kernel that knows nothing of simdgroups."""
    reductions = [c for c in program.calls("__mc_simd_") if _REDUCTION.fullmatch(c.callee)]
    limit = program.lowered.max_threads
    if not reductions or (limit is not None and limit <= SIMD_WIDTH) or _knows_simdgroups(program):
        return
    divergence: Divergence | None = None
    for reduction in reductions:
        place = program.place(reduction)
        wide = {(n, d) for n, d in attributes(reduction.args) if n in _GROUP_WIDE and d == 0}
        if place is None or not wide:
            continue
        later = leads_to(program, reduction)
        if any(_combines(program, instr) for instr in later):
            continue
        stores = [i for i in later if i.op == "store" and any(r.kind == "buffer" for r in program.writes(i))]
        divergence = divergence or Divergence(program, "threadgroup")
        # One result for the whole group, or a sum that strides over the group.
        strides = any(n == "threads_per_threadgroup" for n, _ in attributes(reduction.args))
        single = any(s.args[1] not in divergence.of for s in stores)
        if stores and (strides or single):
            name = "simd_" + _REDUCTION.fullmatch(reduction.callee)[1]  # type: ignore[index]
            text = f"{name} reduces 32 threads; a threadgroup of more has several results, and nothing combines them"
            context.findings.add("uncombined-simd-reduction", place, text, program.kernel.host_name)


def _knows_simdgroups(program: Program) -> bool:
    """Whether the kernel tells simdgroups apart, or steps by the width of one."""
    for instr in program.instructions():
        if _AWARE.fullmatch(attribute(instr)):
            return True
        if len(instr.args) == 2 and (instr.op, constant(instr.args[1])) in _BY_32 and attributes(instr.args[:1]):
            return True
        if instr.op == "phi" and any(_steps_by_32(arg, instr) for arg in instr.args):
            return True
    return False


def _steps_by_32(value: object, phi: Instr) -> bool:
    return (
        isinstance(value, Instr)
        and value.op == "add"
        and value.args[0] is phi
        and constant(value.args[1]) == SIMD_WIDTH
        and "thread_index_in_simdgroup" not in {n for n, _ in attributes(made_of([phi]))}
    )


def _combines(program: Program, instr: Instr) -> bool:
    """Whether an instruction hands a result on to other threads: threadgroup memory, or an atomic operation."""
    if instr.op in ("atomicrmw", "cmpxchg"):
        return True
    return any(root.kind in ("shared", "tgarg") for root in program.writes(instr))
