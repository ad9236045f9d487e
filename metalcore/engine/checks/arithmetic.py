"""Integer division by zero, and shifts by the width or more."""

from __future__ import annotations

import re

from metalcore.engine.checks.program import Program

_DIVISION = re.compile(r"^(?:u|s)(?:div|rem)(?: exact)? (i\d+) (\S+), (\S+?)(?:,|$)")
_SHIFT = re.compile(r"^(?:shl|lshr|ashr)(?: (?:nuw|nsw|exact))* (i(\d+)) (\S+), (\S+?)(?:,|$)")


def add(program: Program) -> None:
    for line in program.lines:
        division, shift = _DIVISION.match(line.body), _SHIFT.match(line.body)
        if division:
            test = program.temp()
            line.before.append(f"  {test} = icmp eq {division[1]} {division[3]}, 0{line.debug}")
            program.report_if(test, "division-by-zero", line)
        elif shift:
            test = program.temp()
            line.before.append(f"  {test} = icmp uge {shift[1]} {shift[4]}, {shift[2]}{line.debug}")
            program.report_if(test, "shift-past-width", line)
