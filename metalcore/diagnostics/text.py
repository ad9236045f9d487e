"""Findings for a terminal, in the form that compilers use."""

from __future__ import annotations

import unicodedata

from metalcore.diagnostics.formats import Document, details, summary
from metalcore.diagnostics.model import Diagnostic

_LEVELS = {"error": "1;31", "warning": "1;33", "note": "1;36"}
_BLUE, _BOLD, _GREEN = "1;34", "1", "1;32"


class _Paint:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour and text else text


def write_text(document: Document, colour: bool) -> str:
    """All findings, and a last line that counts them."""
    paint = _Paint(colour)
    blocks = [_block(diagnostic, document, paint) for diagnostic in document.diagnostics]
    total = summary(document.diagnostics)
    code = next((_LEVELS[level] for level in _LEVELS if level in total), _GREEN)
    blocks.append(f"{document.tool}: {paint(total, code)}\n")
    return "\n".join(blocks)


def _block(diagnostic: Diagnostic, document: Document, paint: _Paint) -> str:
    places = [(diagnostic.file, diagnostic.line), *((r.file, r.line) for r in diagnostic.related)]
    width = max(len(str(line + 1)) for _, line in places)
    gutter = " " * width
    level = _LEVELS.get(diagnostic.level, _BOLD)
    out = [paint(f"{diagnostic.level}[{diagnostic.rule}]", level) + paint(f": {diagnostic.message}", _BOLD)]
    out += _excerpt(document, diagnostic.file, diagnostic.line, diagnostic.column, width, level, paint)
    edge = paint(f"{gutter} =", _BLUE)
    rows = details(diagnostic)
    out += [f"{edge} {what}: {words}" for what, words in rows if what != "again"]
    for related in diagnostic.related:
        out.append(f"{paint('note', _LEVELS['note'])}: {related.message}")
        out += _excerpt(document, related.file, related.line, related.column, width, _LEVELS["note"], paint)
    out += [f"{edge} {words}" for what, words in rows if what == "again"]
    if diagnostic.remedy:
        out.append(f"{edge} {paint('help', _GREEN)}: {diagnostic.remedy}")
    return "\n".join(out) + "\n"


def _excerpt(document: Document, file: str, line: int, column: int, width: int, level: str, paint: _Paint) -> list[str]:
    """The place, and the line with its neighbours where the source can be read."""
    gutter = " " * width
    where = ":".join([document.shown(file), *(str(n) for n in (line, column) if n)])
    out = [f"{paint(gutter + '-->', _BLUE)} {where}"]
    if document.lines.line(file, line) is None:
        return out
    bar = paint(f"{gutter} |", _BLUE)
    out.append(bar)
    for number in (line - 1, line, line + 1):
        text = document.lines.line(file, number)
        if text is None:
            continue
        text = _printable(text)
        out.append(f"{paint(f'{number:>{width}} |', _BLUE)} {text}".rstrip())
        if number == line and column:
            out.append(f"{bar} {_padding(text[: column - 1])}{paint('^', level)}")
    return out


def _printable(text: str) -> str:
    """Control characters of a source must not reach the terminal."""
    return "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _padding(before: str) -> str:
    """Blanks as wide as the text before the caret; tabs stay, whatever they are worth."""
    return "".join("\t" if c == "\t" else "  " if unicodedata.east_asian_width(c) in "WF" else " " for c in before)
