"""What instructions read: values by their names, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from metalcore.engine.ir import I1, PTR, TOKEN, Type, vector


class Operand:
    """A value that instructions read, with its type; its text is how they spell it. It never changes."""

    __slots__ = ("text", "type")

    def __init__(self, text: str, type: Type) -> None:
        self.text, self.type = text, type

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.type} {self.text}>"


Given = Operand | int | float  # a number is a constant, of the type that is wanted there


@lru_cache(maxsize=8192, typed=True)
def constant(ty: Type, value: float | str) -> Operand:
    """A number, or its spelling; in each lane of a vector."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return Operand(f"splat ({ty.item.text} {text})" if ty.is_vector else text, ty)


def constants(item: Type, values: Sequence[int]) -> Operand:
    """A vector of its own number in each lane."""
    head = item.text + " "
    return Operand("<" + ", ".join([head + str(v) for v in values]) + ">", vector(len(values), item))


def zero(ty: Type) -> Operand:
    return Operand("zeroinitializer", ty)


def poison(ty: Type) -> Operand:
    return Operand("poison", ty)


TRUE, FALSE, NULL = Operand("true", I1), Operand("false", I1), Operand("null", PTR)
NO_TOKEN = Operand("none", TOKEN)


@cache
def lane_numbers(picks: tuple[int, ...]) -> str:
    """The mask of a shuffle, spelled."""
    return "<" + ", ".join([f"i32 {p}" for p in picks]) + ">" if len(picks) == 1 or any(picks) else "zeroinitializer"


class Names:
    """Numbers of the values and labels of one function."""

    def __init__(self) -> None:
        self.count = 0
