"""integer-division: a division whose divisor the compiler does not know."""

from __future__ import annotations

from metalcore.engine.ir import Const
from metalcore.lint.context import Context
from metalcore.lint.program import Program, attribute

_NAMES = {"udiv": "division", "sdiv": "division", "urem": "remainder", "srem": "remainder"}


def check(context: Context, program: Program) -> None:
    """Template arguments and function constants count as known."""
    for instr in program.instructions():
        if instr.op not in _NAMES or isinstance(instr.args[1], Const):
            continue
        place = program.place(instr)
        if place is None or place.own or attribute(instr.args[1]) == "threads_per_simdgroup":
            continue
        text = f"{_NAMES[instr.op]} of {instr.type.bits}-bit integers by a value that is not known at compile time"
        context.findings.add("integer-division", place, text, program.kernel.host_name)
