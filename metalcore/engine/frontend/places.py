"""Debug locations of a kernel's IR with the columns of the user's text."""

from __future__ import annotations

from collections.abc import Callable

from metalcore.engine.frontend.columns import MadeLines, source_column
from metalcore.engine.ir import DebugLines, Module

_LAST = 65535  # column that LLVM can hold


def restore(module: Module, text: str, source_line: Callable[[str, int], str | None]) -> None:
    """Correct the columns of debug locations; *text* is what clang read."""
    lines, made = DebugLines(module.metadata), MadeLines(text)
    moved: dict[int, int] = {}
    for number in module.notes.locations():
        place = next(lines.frames(number), None)
        written = source_line(place.file, place.line) if place and place.column else None
        if place is None or not written:
            continue
        line = made.get(place.file, place.line)
        if line and line != written:
            column = source_column(line, place.column, written) or place.column
            if column != place.column:
                moved[number] = column if column <= _LAST else 0
    for number, column in moved.items():
        module.notes.set_column(number, column)
