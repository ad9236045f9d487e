"""Accesses out of the bounds of private arrays.

The offset of each pointer into a variable is computed beside it, in 64 bits; LLVM folds what is constant.
"""

from __future__ import annotations

from metalcore.engine.checks.program import Program
from metalcore.engine.ir import I1, I64, Instr, Value, gep_terms, make, type_of

_Offset = int | Value


def add(program: Program) -> None:
    into: dict[Value, tuple[Instr, _Offset]] = {}  # pointer -> its variable and its offset
    for instr in program.instrs:
        if instr.op == "alloca":
            into[instr] = (instr, 0)
        elif instr.op == "getelementptr" and instr.args[0] in into:
            variable, start = into[instr.args[0]]
            into[instr] = (variable, _advance(program, instr, start))
        elif instr in program.forwarded and program.forwarded[instr] in into:
            into[instr] = into[program.forwarded[instr]]
        elif instr.op in ("load", "store"):
            pointer = instr.args[0] if instr.op == "load" else instr.args[1]
            ty = instr.type if instr.op == "load" else type_of(instr, "stored")
            if pointer in into:
                _check(program, instr, *into[pointer], ty.touched)


def _advance(program: Program, gep: Instr, start: _Offset) -> _Offset:
    total = start
    build = program.after(gep)
    for scale, index in gep_terms(gep):
        step: _Offset
        if isinstance(index, int):
            step = index * scale
            if index == 0:
                continue
        elif isinstance(index, Instr):
            wide = build(make.cast("sext", index, I64)) if index.type.bits < 64 else index
            step = build(make.binary("mul", wide, make.number(I64, scale)))
        else:
            continue
        if isinstance(total, int) and isinstance(step, int):
            total += step
        elif total == 0:
            total = step
        else:
            total = build(make.binary("add", _value(total), _value(step)))
    return total


def _value(offset: _Offset) -> Value:
    return make.number(I64, offset) if isinstance(offset, int) else offset


def _check(program: Program, instr: Instr, variable: Instr, offset: _Offset, size: int) -> None:
    allocated = type_of(variable, "allocated")
    room = allocated.size - size
    detail = f"{'a read' if instr.op == 'load' else 'a write'} of the private variable '{_source_name(variable)}'"
    if allocated.kind == "array":
        detail += f", which has {allocated.length} elements"
    if isinstance(offset, int) or room < 0:
        if room < 0 or not (isinstance(offset, int) and 0 <= offset <= room):
            program.report_if(make.number(I1, 1), "out-of-bounds", instr, detail)
        return
    # Unsigned: a negative offset is a large number.
    test = program.before(instr)(make.compare("ugt", offset, make.number(I64, room)))
    program.report_if(test, "out-of-bounds", instr, detail)


def _source_name(variable: Instr) -> str:
    """A variable's name without what inlining put behind it: `.i`, `.i4`, one for each call."""
    name = variable.name.lstrip("%").strip('"')
    while True:
        start, _, last = name.rpartition(".i")
        if not start or (last and not last.isdigit()):
            return name
        name = start
