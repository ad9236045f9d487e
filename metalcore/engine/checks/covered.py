"""Hooks that count, for each line of the source, the threads that come by."""

from __future__ import annotations

from metalcore.engine.checks.said import REPORT, declare_reports
from metalcore.engine.ir import I1, I32, VOID, Edits, Instr, Module, Names, is_ignored, make
from metalcore.engine.model import COVERED, Place


def cover(raw: Module) -> tuple[Place, ...]:
    """Add the hooks to what the front end made; the place of each line. Functions of our headers have no lines."""
    numbers: dict[tuple[str, int], int] = {}
    for function in list(raw.defined()):
        edits = Edits(function, Names(""))
        for block in function.blocks:
            before: tuple[str, int] | None = None
            for instr in block.instrs:
                line = _line(raw, instr)
                if line is not None and line != before:
                    number = numbers.setdefault(line, len(numbers))
                    edits.before(instr)(make.call(VOID, REPORT, [make.number(I1, 1), make.number(I32, number)]))
                before = line or before
        if not edits.is_empty:
            edits.apply()
    declare_reports(raw)
    return tuple(Place(COVERED, file, line, 0) for file, line in numbers)


def _line(raw: Module, instr: Instr) -> tuple[str, int] | None:
    if instr.op in ("phi", "alloca") or instr.op[0] == "#" or is_ignored(instr) or not instr.line:
        return None
    found = raw.locations.get(instr.line)
    return (found.file, found.line) if found and found.line else None
