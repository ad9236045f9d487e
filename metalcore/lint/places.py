"""From places in the text that clang read to places in the user's files."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.tokens import unescape

_WORDS = re.compile(r"[A-Za-z_]\w*|\S")
_MARKER = re.compile(r'# (\d+)(?: "((?:[^"\\]|\\.)*)")?')


class Place(NamedTuple):
    """A place in a file of the user; *own* where the code itself is the engine's, and this is who called it."""

    file: str
    line: int
    column: int
    own: bool = False


class Places:
    """The lines of a compiled text and what its line markers say of them."""

    def __init__(self, text: str, sources: Sources) -> None:
        self._sources = sources
        self._starts: list[int] = []  # byte offset of each line
        self._names: list[tuple[str, int]] = []  # file and line that the markers give it
        self._texts: dict[tuple[str, int], str] = {}
        at, file, number = 0, "", 0
        for line in text.split("\n"):
            self._starts.append(at)
            at += len(line.encode()) + 1
            marker = _MARKER.match(line) if line.startswith("#") else None
            if marker:
                number = int(marker[1]) - 1
                file = unescape(marker[2]) if marker[2] is not None else file
                self._names.append((file, number))
                continue
            number += 1
            self._names.append((file, number))
            self._texts.setdefault((file, number), line)

    def at_offset(self, offset: int) -> Place:
        """The place of a byte of the text."""
        index = bisect_right(self._starts, offset) - 1
        file, line = self._names[index]
        return self.at(file, line, offset - self._starts[index] + 1)

    def at(self, file: str, line: int, column: int, own: bool = False) -> Place:
        """A place that clang names, with the column that its word has in the user's own line."""
        return Place(file, line, self._column(file, line, column), own)

    def _column(self, file: str, line: int, column: int) -> int:
        theirs = self._sources.line(file, line) or ""
        indent = len(theirs) - len(theirs.lstrip()) + 1
        ours = self._texts.get((file, line), "")
        word = next((m for m in _WORDS.finditer(ours) if m.start() + 1 <= column <= m.end()), None)
        if word is None:
            return indent
        spelled = _METAL.get(word[0], word[0])
        before = sum(_METAL.get(m[0], m[0]) == spelled for m in _WORDS.finditer(ours, 0, word.start()))
        found = [m.start() + 1 for m in _WORDS.finditer(theirs) if m[0] == spelled]
        return found[min(before, len(found) - 1)] if found else indent


_METAL = {f"__mc_{space}": space for space in ("device", "threadgroup", "constant", "thread")}
