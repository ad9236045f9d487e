"""Sizes of vectors that a function template deduces: Metal takes whatever integer type the parameter has.

C++ deduces N of `vec<T, N>` only as the type that vec's own parameter has. A parameter of another type is deduced as
int under a name of its own, and stands for itself, converted, everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens

_VECTORS = frozenset(("vec", "packed_vec"))
_KINDS = frozenset(("typename", "class", "template", "auto", "struct"))
_NAME = re.compile(r"[A-Za-z_]\w*")


def unify_sizes(tokens: Tokens, structure: Structure) -> None:
    """Rewrite `template <typename T, uint N> T f(vec<T, N> v)` so that a call with any vec deduces N."""
    for function in structure.functions:
        if function.template < 0 or function.open < 0 or function.instantiation:
            continue
        sizes = None
        for start, stop in _parameters(tokens, function):
            found = _parameter(tokens, start, stop)
            if found is None:
                continue
            if sizes is None:
                sizes = set(_sizes(tokens, function.open + 1, function.close))
            if any(tokens.text[i] == tokens.text[found] for i in sizes):
                _rename(tokens, function, start, found)


def _parameters(tokens: Tokens, function: Declaration) -> Iterator[tuple[int, int]]:
    """Every parameter of the function's template headers."""
    i = function.template
    while i < function.head and tokens.at(i) == "template":
        open_ = tokens.forward(i)
        close = tokens.close_angle(open_)
        if close < 0:
            return
        yield from tokens.split(open_ + 1, close)
        i = tokens.forward(close)


def _parameter(tokens: Tokens, start: int, stop: int) -> int | None:
    """Index of the name of a parameter `uint N` or `uint N = 4` whose type is a plain one other than int, else None."""
    words: list[int] = []
    for i in range(start, stop):
        word = tokens.text[i]
        if word == "=":
            break
        if word and word[0] != "#":
            words.append(i)
    names = [tokens.text[i] for i in words]
    plain = len(names) > 1 and all(_NAME.fullmatch(n) or n == "::" for n in names) and names[-2] != "::"
    return words[-1] if plain and _KINDS.isdisjoint(names) and names[:-1] != ["int"] else None


def _sizes(tokens: Tokens, start: int, stop: int) -> Iterator[int]:
    """Index of N in every `vec<..., N>` where it is a name."""
    i = start
    while i < stop:
        if tokens.text[i] in _VECTORS:
            open_ = tokens.forward(i)
            close = tokens.close_angle(open_, stop) if tokens.at(open_) == "<" else -1
            if close >= 0:
                parts = tokens.split(open_ + 1, close)
                last = tokens.back(close)
                if len(parts) == 2 and len(tokens.words(*parts[1])) == 1 and _NAME.fullmatch(tokens.text[last]):
                    yield last
        i += 1


def _rename(tokens: Tokens, function: Declaration, start: int, name: int) -> None:
    old, new = tokens.text[name], f"__mc_size_{tokens.text[name]}"
    converted = f"(({tokens.source(start, name)}){new})"
    sizes = set(_sizes(tokens, name, function.end + 1))
    for i in range(name + 1, function.end + 1):
        if tokens.text[i] == old and tokens.at(tokens.back(i)) not in (".", "->", "::"):
            tokens.text[i] = new if i in sizes else converted
    tokens.blank(start, name)
    tokens.text[name] = f"int {new}"
