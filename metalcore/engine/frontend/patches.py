"""Error-driven patches: MSL that clang's mode refuses and that a small, local edit makes acceptable."""

from __future__ import annotations

import re
from collections.abc import Callable

# The message, which of clang's source ranges are operands, and the C++ that these are wrapped in.
_WRAPPED = (
    # clang has no direct conversion between the two 16-bit floats; float holds both exactly.
    (re.compile(r"cast from (?=.*'_Float16').*(?=.*'__bf16').* is not allowed"), slice(-1, None), "::__mc::widen"),
    # `c ? x[i] : y` with classes in two address spaces: both as plain values.
    (re.compile(r"incompatible operand types \(.*\)"), slice(0, 2), "::__mc::value"),
    (re.compile(r"conditional expression is ambiguous"), slice(0, 2), "::__mc::value"),
    # In templates clang forgets that a swizzle (a property) has a class type: `v.xy * s`, `-v.xy`.
    (re.compile(r"invalid operands to binary expression \(.*\bvec<"), slice(0, 2), "::__mc::value"),
    (re.compile(r"invalid argument type '.*\bvec<.*' to unary expression"), slice(-1, None), "::__mc::value"),
)
_RANGED = re.compile(r"^[^\n]*?:\d+:\d+:((?:\{\d+:\d+-\d+:\d+\})+): (?:fatal )?error: ([^\n]*)$", re.MULTILINE)
_RANGE = re.compile(r"\{(\d+):(\d+)-(\d+):(\d+)\}")
_MARKER = re.compile(r"^# \d+[^\n]*$", re.MULTILINE)

Span = tuple[int, int, int, int]


def patch(text: str, errors: str, compile_again: Callable[[str], str]) -> str | None:
    """The text with what can be mended mended, or None.

    *compile_again* answers clang's messages, with source ranges, for another text.
    """
    if not any(pattern.search(errors) for pattern, _, _ in _WRAPPED):
        return None
    # Without line markers clang's ranges are places in this very text.
    spans: dict[Span, str] = {}
    for ranges, message in _RANGED.findall(compile_again(_MARKER.sub("", text))):
        for pattern, operands, wrapper in _WRAPPED:
            if pattern.search(message):
                for found in _RANGE.findall(ranges)[operands]:
                    first, column, last, end = (int(n) for n in found)
                    spans[first, column, last, end] = wrapper
    return _wrap(text, spans) if spans else None


def _wrap(text: str, spans: dict[Span, str]) -> str:
    lines = [line.encode() for line in text.split("\n")]  # clang counts columns in bytes
    pieces = [((l1, c1), f"{wrapper}(") for (l1, c1, _, _), wrapper in spans.items()]
    pieces += [((l2, c2), ")") for (_, _, l2, c2) in spans]
    for (line, column), piece in sorted(pieces, reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[: column - 1] + piece.encode() + old[column - 1 :]
    return b"\n".join(lines).decode()
