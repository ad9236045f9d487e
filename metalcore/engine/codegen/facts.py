"""What launch validation wants to know of a kernel's code: features of GPU families that it uses, and whether it
counts its simdgroups as if all were full."""

from __future__ import annotations

from metalcore.engine.ir import DebugLines, Global, Instr, Module, Type, Value
from metalcore.engine.lockstep.externals import EXTERNALS

_FEATURES = (
    *("simd-reduction", "simd-permute", "simd-shift-and-fill", "simdgroup-matrix"),
    *("float-atomics", "64-bit-atomics", "bfloat"),
)
_PASSES_ON = frozenset(("fptrunc", "fpext", "bitcast", "trunc", "zext", "sext", "freeze"))


def features(module: Module) -> tuple[str, ...]:
    """Rows of the family table that the optimised scalar IR needs."""
    found = {feature for instr in module.function.instructions() for feature in _features_of(instr)}
    return tuple(name for name in _FEATURES if name in found)


def _features_of(instr: Instr) -> list[str]:
    found = ["bfloat"] if any("bfloat" in ty.text for ty in _types(instr)) else []
    if instr.op == "call":
        external = EXTERNALS.get(instr.callee)
        if external is not None and external.feature:
            found.append(external.feature)
    elif instr.op == "atomicrmw" and instr.extra["rmw"] in ("fadd", "fsub", "fmin", "fmax"):
        found.append("float-atomics")
    if instr.op in ("atomicrmw", "cmpxchg") and instr.args[1].type.text == "i64":
        found.append("64-bit-atomics")
    return found


def _types(instr: Instr) -> list[Type]:
    named = [ty for name in ("allocated", "source") if isinstance(ty := instr.extra.get(name), Type)]
    return [instr.type, *named, *(arg.type for arg in instr.args)]


def whole_simdgroups(module: Module) -> str:
    """Where the kernel takes threads / 32 for its number of simdgroups in a reduction of two stages; "" if it does not.

    Three things must come together: the result of a simdgroup's reduction is stored in threadgroup memory, a barrier
    is there, and the size of the threadgroup is divided by 32, rounded down, with nothing added before.
    """
    called = module.functions.keys()
    if "__mc_threadgroup_barrier" not in called or "__mc_threads_per_threadgroup" not in called:
        return ""
    stores = (instr for instr in module.function.instructions() if instr.op == "store")
    if not any(_comes_from_reduction(s.args[0]) and _in_threadgroup_memory(s.args[1]) for s in stores):
        return ""
    for instr in module.function.instructions():
        if _is_floor(instr) and _is_group_size(instr.args[0]):
            return _place(module, instr.line) or "its place is not known"
    return ""


def _comes_from_reduction(value: Value) -> bool:
    for _ in range(8):
        if not isinstance(value, Instr):
            return False
        external = EXTERNALS.get(value.callee)
        if external is not None and external.emitter == "reduce":
            return True
        if value.op not in _PASSES_ON:
            return False
        value = value.args[0]
    return False


def _in_threadgroup_memory(value: Value) -> bool:
    for _ in range(16):
        if isinstance(value, Global):
            return True  # constants are never stored to
        if not isinstance(value, Instr):
            return False
        if value.callee == "__mc_threadgroup_arg":
            return True
        if value.op not in ("getelementptr", "addrspacecast"):
            return False
        value = value.args[0]
    return False


def _is_floor(instr: Instr) -> bool:
    """A division of a 32-bit number by 32."""
    if instr.op not in ("lshr", "udiv") or instr.type.text != "i32":
        return False
    by = instr.args[1]
    return not isinstance(by, (Instr, Global)) and by.value == (5 if instr.op == "lshr" else 32)


def _is_group_size(value: Value) -> bool:
    """The number of threads, or the product of its dimensions."""
    if not isinstance(value, Instr):
        return False
    if value.callee == "__mc_threads_per_threadgroup":
        return True
    return value.op == "mul" and value.type.text == "i32" and all(_is_group_size(factor) for factor in value.args)


def _place(module: Module, location: int) -> str:
    """File and line of a debug location."""
    frame = next(DebugLines(module.metadata).frames(location), None) if location else None
    if frame is None:
        return ""
    return f"{frame.file}:{frame.line}" if frame.file else f"line {frame.line}"
