"""Columns of the user's own text for places in a text that was made of it.

The preprocessor drops white space and expands macros, the rewriting takes attributes out and puts words in: lines stay,
columns do not. The words of a made line are laid beside those of the written one.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from difflib import SequenceMatcher

from metalcore.engine.frontend.tokens import unescape

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\x00-#%-@\[-^`{-\x7f][\w$]*|\.?\d[\w.]*|\S')
_MARKER = re.compile(r'#(?:line)?\s+(\d{1,10})(?:\s+"((?:[^"\\]|\\.)*)")?')
_MOST_PAIRS = 1 << 20  # of words that are laid beside each other with care
_AHEAD = 48


def source_column(made: str, column: int, written: str) -> int:
    """Column of *written*, from 1, of the word that stands at *column* of *made*; 0 where nothing is like it.

    Example: `source_column("f(__mc_device int* x ) { x[0]", 26, "f(device int* x [[buffer(0)]]) { x[0]") == 34`.
    """
    if not made.isascii():  # clang counts bytes
        column = len(made.encode()[: max(column - 1, 0)].decode(errors="ignore")) + 1
    if made == written:
        return column
    starts, places = _aligned(made, written)
    at = bisect_right(starts, column) - 1
    return places[at] if at >= 0 else 0


@functools.lru_cache(maxsize=256)
def _aligned(made: str, written: str) -> tuple[list[int], list[int]]:
    """Where each word of *made* starts, and where it comes from in *written*."""
    ours, theirs = list(_WORD.finditer(made)), list(_WORD.finditer(written))
    if len(ours) * len(theirs) > _MOST_PAIRS:
        return [m.start() + 1 for m in ours], _in_step(ours, theirs)
    found = [0] * len(ours)
    matcher = SequenceMatcher(None, [_plain(m[0]) for m in ours], [_plain(m[0]) for m in theirs], autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        for i in range(a, a_end):
            if kind == "equal":
                found[i] = theirs[b + i - a].start() + 1
            elif kind == "replace":  # what a macro was expanded to: where the macro stands
                found[i] = theirs[min(b + i - a, b_end - 1) if b_end - b == a_end - a else b].start() + 1
            elif theirs:  # put in by the rewriting: what it stands before
                found[i] = theirs[min(b, len(theirs) - 1)].start() + 1
    return [m.start() + 1 for m in ours], found


def _in_step(ours: list[re.Match[str]], theirs: list[re.Match[str]]) -> list[int]:
    """The same for a very long line, in one walk: the next like word that is not far ahead."""
    found, at = [], 0
    for word in ours:
        plain = _plain(word[0])
        ahead = (i for i in range(at, min(at + _AHEAD, len(theirs))) if _plain(theirs[i][0]) == plain)
        place = next(ahead, -1)
        if place >= 0:
            at = place + 1
        found.append(theirs[min(place if place >= 0 else at, len(theirs) - 1)].start() + 1 if theirs else 0)
    return found


def _plain(word: str) -> str:
    """A word without what the rewriting does to it."""
    if word[0].isdigit() or word[0] == ".":
        return word.rstrip("fFhH")
    return word.removeprefix("__mc_")


class MadeLines:
    """The lines of a text with line markers, by the file and line that these name."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int], str] = {}
        file, number = "", 0
        for line in text.split("\n"):
            marker = _MARKER.match(line) if line[:1] == "#" else None
            if marker:
                number = int(marker[1])
                file = unescape(marker[2]) if marker[2] is not None else file
            else:
                key = (file, number)
                if not self._lines.get(key, "").strip():
                    self._lines[key] = line
                number += 1

    def get(self, file: str, line: int) -> str:
        return self._lines.get((file, line), "")
