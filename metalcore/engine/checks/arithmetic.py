"""Integer division by zero, and shifts by the width or more."""

from __future__ import annotations

from metalcore.engine.checks.program import Program
from metalcore.engine.ir import make


def add(program: Program) -> None:
    for instr in program.instrs:
        if instr.op in ("udiv", "sdiv", "urem", "srem"):
            pred, limit, check = "eq", 0, "division-by-zero"
        elif instr.op in ("shl", "lshr", "ashr"):
            pred, limit, check = "uge", instr.type.bits, "shift-past-width"
        else:
            continue
        if instr.type.kind == "int":
            test = program.before(instr)(make.compare(pred, instr.args[1], make.number(instr.type, limit)))
            program.report_if(test, check, instr)
