"""Sizes of vectors, matrices and arrays that a function template deduces: Metal takes whatever integer type they have.

C++ deduces N of `vec<T, N>` only as the type that vec's own parameter has. A parameter of another type is deduced as
that under a name of its own, and stands for itself, converted, everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens

# The type of each template's own sizes, and how many it has.
_SIZED = {"vec": ("int", 1), "packed_vec": ("int", 1), "matrix": ("int", 2), "array": ("size_t", 1)}
_KINDS = frozenset(("typename", "class", "template", "auto", "struct"))
_NAME = re.compile(r"[A-Za-z_]\w*")


def unify_sizes(tokens: Tokens, structure: Structure) -> None:
    """Rewrite `template <typename T, uint N> T f(vec<T, N> v)` so that a call with any vec deduces N."""
    sized = [d for d in structure.all if d.kind == "class" and d.name in _SIZED]  # a user's `matrix` is not Metal's
    for function in structure.functions:
        if function.template < 0 or function.open < 0 or function.instantiation:
            continue
        own = {d.name for d in sized if function.scope[: len(d.scope)] == d.scope}
        types: dict[str, str] | None = None
        for start, stop in _parameters(tokens, function):
            name = _parameter(tokens, start, stop)
            if name is None:
                continue
            if types is None:
                sizes = _sizes(tokens, function.open + 1, function.close, own)
                types = {}
                for i, type_ in sizes:
                    types.setdefault(tokens.text[i], type_)
            wanted = types.get(tokens.text[name])
            if wanted and tokens.words(start, name) != [wanted]:
                _rename(tokens, function, start, name, wanted, own)


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
    """Index of the name of a parameter `uint N` or `uint N = 4` whose type is a plain one, else None."""
    words: list[int] = []
    for i in range(start, stop):
        word = tokens.text[i]
        if word == "=":
            break
        if word and word[0] != "#":
            words.append(i)
    names = [tokens.text[i] for i in words]
    plain = len(names) > 1 and all(_NAME.fullmatch(n) or n == "::" for n in names) and names[-2] != "::"
    return words[-1] if plain and _KINDS.isdisjoint(names) else None


def _sizes(tokens: Tokens, start: int, stop: int, own: set[str]) -> Iterator[tuple[int, str]]:
    """Index of N in every `vec<..., N>` where it is a name, and the type that C++ deduces there."""
    for i in range(start, stop):
        word = tokens.text[i]
        if word not in _SIZED:
            continue
        before = tokens.back(i)
        if tokens.at(tokens.back(before)) != "metal" if tokens.at(before) == "::" else word in own:
            continue
        type_, count = _SIZED[word]
        open_ = tokens.forward(i)
        close = tokens.close_angle(open_, stop) if tokens.at(open_) == "<" else -1
        parts = tokens.split(open_ + 1, close) if close >= 0 else []
        if len(parts) != count + 1:
            continue
        for first, last in parts[1:]:
            name = tokens.back(last)
            if len(tokens.words(first, last)) == 1 and _NAME.fullmatch(tokens.text[name]):
                yield name, type_


def _rename(tokens: Tokens, function: Declaration, start: int, name: int, wanted: str, own: set[str]) -> None:
    old, new = tokens.text[name], f"__mc_size_{tokens.text[name]}"
    converted = f"(({tokens.source(start, name)}){new})"
    sizes = {i for i, _ in _sizes(tokens, name, function.end + 1, own)}
    for i in range(name + 1, function.end + 1):
        if tokens.text[i] == old and tokens.at(tokens.back(i)) not in (".", "->", "::"):
            tokens.text[i] = new if i in sizes else converted
    tokens.blank(start, name)
    tokens.text[name] = f"{wanted} {new}"
