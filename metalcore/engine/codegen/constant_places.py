"""Constant addresses in LLVM's text: `getelementptr (...)` as an operand, also one inside of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

from metalcore.engine.lockstep.ir import Type
from metalcore.engine.lockstep.parse import gep_of

_OPEN = re.compile(r"getelementptr (?:inbounds |nuw |nusw |inrange\([^)]*\) )*\(")
_MARK = re.compile(r'"[^"]*"|[()\[\]{}<>,]')
_NUMBER = re.compile(r"i\d+ -?\d+")


def constant_addresses(line: str) -> list[str]:
    """The constant addresses that are operands of an instruction."""
    found: list[str] = []
    at = 0
    while start := _OPEN.search(line, at):
        at = start.end() + _closing(line[start.end() :])
        found.append(line[start.start() : at])
    return found


def _closing(text: str) -> int:
    """Where the bracket ends that a text stands in."""
    depth = 1
    for mark in _MARK.finditer(text):
        depth += (mark[0] in "([{<") - (mark[0] in ")]}>")
        if not depth:
            return mark.end()
    return len(text)


def parts(text: str) -> list[str]:
    """A list at its commas, but for those in brackets."""
    found: list[str] = []
    depth = start = 0
    for mark in _MARK.finditer(text):
        depth += (mark[0] in "([{<") - (mark[0] in ")]}>")
        if mark[0] == "," and not depth:
            found.append(text[start : mark.start()].strip())
            start = mark.end()
    return [*found, text[start:].strip()]


def place_of(text: str, variables: Container[str], types: Callable[[str], Type]) -> tuple[str, int] | None:
    """The variable that a constant address is computed from, and its distance from there in bytes.

    Example: `getelementptr (i32, ptr @t, i64 2)` is `("@t", 8)`.
    """
    if text in variables:
        return text, 0
    if (start := _OPEN.match(text)) is None:
        return None
    source, base, *indices = parts(text[start.end() : -1])
    found = place_of(base.removeprefix("ptr "), variables, types)
    if found is None or not all(_NUMBER.fullmatch(index) for index in indices):
        return None
    terms = gep_of(types(source), ", ".join(indices))
    return found[0], found[1] + sum(scale * index for scale, index in terms if isinstance(index, int))
