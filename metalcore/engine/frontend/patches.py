"""Error-driven patches: MSL that clang's mode refuses and that a small, local edit makes acceptable."""

from __future__ import annotations

import re
from collections.abc import Callable

from metalcore.engine.frontend import braces, repairs
from metalcore.engine.frontend.tokens import Tokens

# The message, which of clang's source ranges are operands, and the C++ that these are wrapped in.
_WRAPPED = (
    # clang has no direct conversion between the two 16-bit floats; float holds both exactly.
    (re.compile(r"cast from (?=.*'_Float16').*(?=.*'__bf16').* is not allowed"), slice(-1, None), "::__mc::widen"),
    # `c ? x[i] : y` with classes in two address spaces: both as plain values.
    (re.compile(r"incompatible operand types \(.*\)"), slice(0, 2), "::__mc::value"),
    (re.compile(r"conditional expression is ambiguous"), slice(0, 2), "::__mc::value"),
    # In templates clang forgets that a swizzle (a property) has a class type: `v.xy * s`, `-v.xy`.
    (re.compile(r"invalid operands to binary expression \(.*\bvec<"), slice(0, 2), "::__mc::value"),
    (re.compile(r"invalid argument type '.*\bvec<.*'\)? to unary expression"), slice(-1, None), "::__mc::value"),
)
# `uint4 k = {a, b, c};`, `k = {a, b};`: the rest is zero. A constructor with a tag takes fewer; `uint4(a, b, c)` stays
# an error.
_FEWER = re.compile(r"no matching constructor for initialization of '.*\b(?:packed_)?vec<|no viable overloaded '='")
# Constants that clang would fold to nothing: behind the wrapper it computes them at run time, with a defined result.
_FOLDED = (
    (re.compile(r"shift count (?:>= width of type|is negative)"), slice(-1, None), "::__mc::at_run_time"),
    (re.compile(r"(?:division|remainder) by zero is undefined"), slice(-1, None), "::__mc::at_run_time"),
)
_RANGED = re.compile(
    r"^<stdin>:\d+:\d+:((?:\{(?:\d{1,9}[:-]){3}\d{1,9}\})+): (?:fatal )?(?:error|warning): ([^\n]*)$",
    re.MULTILINE,
)
_ERROR_LINE = re.compile(r"^<stdin>:(\d+):[^\n]* error: ", re.MULTILINE)
_FLOAT = re.compile(r"(?:\d[\d']*\.[\d']*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fF]?|\d+[fF]")
_RANGE = re.compile(r"\{(\d+):(\d+)-(\d+):(\d+)\}")
_MARKER = re.compile(r"^# \d+[^\n]*$", re.MULTILINE)

Place = tuple[int, int]  # line and column, in bytes, from 1
Span = tuple[int, int, int, int]
Wrapper = tuple[re.Pattern[str], slice, str]


def patch(text: str, errors: str, compile_again: Callable[[str], str]) -> str | None:
    """The text with what can be mended mended, or None.

    *compile_again* answers clang's messages, with source ranges, for another text.
    """
    return _patch(text, errors, compile_again, _WRAPPED, (_FEWER, *repairs.PATTERNS))


def name_object(text: str, errors: str, compile_again: Callable[[str], str]) -> str | None:
    """The text with the object before members that a method with an explicit object names plainly, or None."""
    if not repairs.MEMBER.search(errors):
        return None
    plain = bare(text)
    return _inserted(text, list(repairs.members(plain, compile_again(plain)).items()))


def first_only(text: str, compile_again: Callable[[str], str]) -> str:
    """The text with lists of one value that make a vector marked, but for lines where that does not compile.

    Such a line is one of a template that makes vectors and numbers of the same list.
    """
    plain = bare(text)
    messages = compile_again(plain)
    pieces = braces.insertions(plain, messages)
    while (better := _inserted(text, pieces)) is not None:
        again = compile_again(bare(better))
        if again.count(" error: ") <= messages.count(" error: "):
            return better
        bad = {int(line) for line in _ERROR_LINE.findall(again)}
        kept = [piece for piece in pieces if piece[0][0] not in bad]
        pieces = kept if len(kept) < len(pieces) else []
    return text


def bare(text: str) -> str:
    """The text without line markers: clang's places are then those of this very text."""
    return _MARKER.sub("", text)


def wants_unfolding(warnings: str, ir: str) -> bool:
    """Whether `unfold` may have something to move."""
    return " poison" in ir or any(pattern.search(warnings) for pattern, _, _ in _FOLDED)


def unfold(text: str, warnings: str, ir: str, compile_again: Callable[[str], str]) -> str | None:
    """The text with constant operands that have no defined result moved to run time, or None where there are none."""
    better = _patch(text, warnings, compile_again, _FOLDED)
    return better or (_unfold_literals(text) if " poison" in ir else None)


def _unfold_literals(text: str) -> str | None:
    """clang says nothing of INT_MIN / -1 and of floats that no integer holds: every such literal waits for run time."""
    tokens = Tokens(text)
    count = 0
    for i, word in enumerate(tokens.text):
        last = -1
        if _FLOAT.fullmatch(word):
            last = i
        elif word in ("__builtin_inff", "__builtin_nanf") and tokens.at(i + 1) == "(":
            last = tokens.match[i + 1]
        elif word == "-" and tokens.at(i + 1) == "1" and tokens.at(tokens.back(i)) in ("/", "%"):
            last = i + 1
        if last >= 0:
            tokens.insert(i, "::__mc::at_run_time(")
            tokens.text[last] += ")"
            count += 1
    return tokens.join() if count else None


def _patch(
    text: str,
    errors: str,
    compile_again: Callable[[str], str],
    wrapped: tuple[Wrapper, ...],
    others: tuple[re.Pattern[str], ...] = (),
) -> str | None:
    if not any(pattern.search(errors) for pattern in (*others, *(pattern for pattern, _, _ in wrapped))):
        return None
    plain = bare(text)
    messages = compile_again(plain)
    lines = [line.encode() for line in text.split("\n")]
    spans: dict[Span, str] = {}
    pieces: dict[Place, str] = repairs.insertions(plain, messages) if others else {}
    for ranges, message in _RANGED.findall(messages):
        found = [tuple(int(n) for n in numbers) for numbers in _RANGE.findall(ranges)]
        if not all(0 < line <= len(lines) for first, _, last, _ in found for line in (first, last)):
            continue  # not clang's own words: a text of the source's that it quotes
        for pattern, operands, wrapper in wrapped:
            if pattern.search(message):
                for first, column, last, end in found[operands]:
                    spans[first, column, last, end] = wrapper
        if others and _FEWER.search(message):
            for first, column, _, _ in found:
                if lines[first - 1][column - 1 : column] == b"{":
                    pieces[first, column + 1] = braces.TAG
    ordered = [*pieces.items(), *(((l1, c1), f"{wrapper}(") for (l1, c1, _, _), wrapper in spans.items())]
    ordered += [((l2, c2), ")") for (_, _, l2, c2) in spans]
    return _inserted(text, ordered)


def _inserted(text: str, pieces: list[tuple[Place, str]]) -> str | None:
    """The text with each piece at its place, None where there are none."""
    if not pieces:
        return None
    lines = [line.encode() for line in text.split("\n")]  # clang counts columns in bytes
    for (line, column), piece in sorted(pieces, reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[: column - 1] + piece.encode() + old[column - 1 :]
    return b"\n".join(lines).decode()
