"""What instructions read: values by their names, and constants."""

from __future__ import annotations

from collections.abc import Sequence

from .types import I1, PTR, TOKEN, LLType, vector

_new = str.__new__


class Operand(str):
    """A value that instructions read, with its type; its text is how they spell it."""

    __slots__ = ("type",)
    type: LLType


Given = Operand | int | float  # a number is a constant, of the type that is wanted there


def operand(text: str, ty: LLType) -> Operand:
    made = _new(Operand, text)
    made.type = ty
    return made


def constant(ty: LLType, value: float | str) -> Operand:
    """A number, or its spelling; in each lane of a vector."""
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    return operand(f"splat ({ty.item} {text})" if ty.is_vector else text, ty)


def constants(item: LLType, values: Sequence[int]) -> Operand:
    """A vector of its own number in each lane."""
    head = item + " "
    return operand("<" + ", ".join([head + str(v) for v in values]) + ">", vector(len(values), item))


def zero(ty: LLType) -> Operand:
    return operand("zeroinitializer", ty)


def poison(ty: LLType) -> Operand:
    return operand("poison", ty)


TRUE, FALSE, NULL = operand("true", I1), operand("false", I1), operand("null", PTR)
NO_TOKEN = operand("none", TOKEN)
