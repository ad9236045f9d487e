"""Accesses out of the bounds of private arrays.

The offset of each pointer into a variable is computed beside it, in 64 bits; LLVM folds what is constant.
"""

from __future__ import annotations

import re

from metalcore.engine.checks.program import Line, Program
from metalcore.engine.lockstep.ir import Instr, Type, Value, gep_terms


def add(program: Program) -> None:
    into: dict[str, tuple[Instr, str]] = {}  # pointer -> its variable and its offset, a number or a name
    for line, instr in program.pairs:
        if instr.op == "alloca":
            into[instr.name] = (instr, "0")
        elif instr.op == "getelementptr" and _name(instr.args[0]) in into:
            variable, start = into[_name(instr.args[0])]
            into[instr.name] = (variable, _advance(program, line, instr, start))
        elif program.forwarded.get(instr.name) in into:
            into[instr.name] = into[program.forwarded[instr.name]]
        elif instr.op in ("load", "store"):
            pointer = instr.args[0] if instr.op == "load" else instr.args[1]
            ty = instr.type if instr.op == "load" else instr.extra["stored"]
            assert isinstance(ty, Type)
            if _name(pointer) in into:
                _check(program, line, *into[_name(pointer)], ty.touched)


def _name(value: Value) -> str:
    return value.name if isinstance(value, Instr) else ""


def _advance(program: Program, line: Line, gep: Instr, start: str) -> str:
    total = start
    for scale, index in gep_terms(gep):
        if isinstance(index, int):
            step = str(index * scale)
            if index == 0:
                continue
        else:
            name = index.name if isinstance(index, Instr) else None
            if name is None:
                continue
            if index.type.bits < 64:
                wide = program.temp()
                line.after.append(f"  {wide} = sext {index.type.text} {name} to i64{line.debug}")
                name = wide
            step = program.temp()
            line.after.append(f"  {step} = mul i64 {name}, {scale}{line.debug}")
        if total == "0":
            total = step
        elif total.lstrip("-").isdigit() and step.lstrip("-").isdigit():
            total = str(int(total) + int(step))
        else:
            both = program.temp()
            line.after.append(f"  {both} = add i64 {total}, {step}{line.debug}")
            total = both
    return total


def _check(program: Program, line: Line, variable: Instr, offset: str, size: int) -> None:
    allocated = variable.extra["allocated"]
    assert isinstance(allocated, Type)
    room = allocated.size - size
    detail = f"{'a read' if line.op == 'load' else 'a write'} of the private variable '{_source_name(variable)}'"
    if allocated.kind == "array":
        detail += f", which has {allocated.count} elements"
    if offset.lstrip("-").isdigit() or room < 0:
        if room < 0 or not 0 <= int(offset) <= room:
            program.report_if("true", "out-of-bounds", line, detail)
        return
    test = program.temp()
    # Unsigned: a negative offset is a large number.
    line.before.append(f"  {test} = icmp ugt i64 {offset}, {room}{line.debug}")
    program.report_if(test, "out-of-bounds", line, detail)


def _source_name(variable: Instr) -> str:
    """A variable's name without what inlining put behind it."""
    return re.sub(r"(?:\.i\d*)+$", "", variable.name.lstrip("%").strip('"'))
