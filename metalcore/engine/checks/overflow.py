"""32-bit index arithmetic that wraps on its way to a device address.

The arithmetic is done a second time in 64 bits. Where that gives another index than the 32 bits, read as a signed and
as an unsigned number, the index overflowed. `i - 1 + 1` wraps and comes back: nothing is wrong with it.
"""

from __future__ import annotations

from metalcore.engine.checks.program import Program
from metalcore.engine.ir import I64, Builder, Const, Instr, Value, gep_terms, make

_OPS = ("add", "sub", "mul", "shl")
_MOST_STEPS = 24
_WITHIN_GROUP = 1024
_SMALL = {
    f"__mc_{name}": _WITHIN_GROUP
    for name in (
        *("thread_position_in_threadgroup", "thread_index_in_threadgroup", "thread_index_in_simdgroup"),
        *("simdgroup_index_in_threadgroup", "threads_per_threadgroup", "simdgroups_per_threadgroup"),
        *("threads_per_simdgroup", "thread_index_in_quadgroup", "quadgroup_index_in_threadgroup"),
    )
}


def add(program: Program) -> None:
    for instr in program.instrs:
        if instr.op != "getelementptr":
            continue
        roots = program.roots.get(instr)
        if not any(r.kind == "buffer" for r in roots):
            continue
        for _, index in gep_terms(instr):
            if isinstance(index, Instr) and index.op in ("sext", "zext") and index.args[0].type.bits == 32:
                _check(program, instr, index)


def _check(program: Program, gep: Instr, index: Instr) -> None:
    narrow = index.args[0]
    if not isinstance(narrow, Instr) or narrow.op not in _OPS or _limit(narrow, 8) is not None:
        return
    build = program.before(gep)
    tests = []
    for extension in ("sext", "zext"):
        exact = _exact(build, narrow, extension, [_MOST_STEPS])
        if exact is None:
            return
        tests.append(build(make.compare("ne", exact, index)))
    program.report_if(build(make.binary("and", *tests)), "index-overflow", gep)


def _exact(build: Builder, value: Value, extension: str, steps: list[int]) -> Value | None:
    """The value computed in 64 bits from its parts, which are extended as they are."""
    if isinstance(value, Const):
        return make.number(I64, value.value) if value.value is not None else None
    if not isinstance(value, Instr):
        return None
    if value.op in _OPS:
        steps[0] -= 1
        if steps[0] < 0:
            return None
        parts = [_exact(build, arg, extension, steps) for arg in value.args[:2]]
        if parts[0] is None or parts[1] is None:
            return None
        return build(make.binary(value.op, parts[0], parts[1]))
    how = value.op if value.op in ("sext", "zext") else extension
    source = value.args[0] if value.op in ("sext", "zext") else value
    return build(make.cast(how, source, I64)) if isinstance(source, Instr) else None


def _limit(value: Value, depth: int) -> int | None:
    """A bound on an index that surely stays below 2^31, or None."""
    if isinstance(value, Const):
        return value.value if value.value is not None and 0 <= value.value < 1 << 31 else None
    if not isinstance(value, Instr) or not depth:
        return None
    if value.callee in _SMALL:
        return _SMALL[value.callee]
    if value.op in ("and", "urem") and isinstance(value.args[1], Const):
        return _limit(value.args[1], 1)
    if value.op in ("lshr", "udiv", "zext"):
        return _limit(value.args[0], depth - 1)
    if value.op not in ("add", "mul", "shl"):
        return None
    a, b = (_limit(arg, depth - 1) for arg in value.args[:2])
    if a is None or b is None or (value.op == "shl" and b > 31):
        return None
    result = a + b if value.op == "add" else a * b if value.op == "mul" else a << b
    return result if result < 1 << 31 else None
