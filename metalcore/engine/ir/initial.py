"""Initialisers of variables as values, and tables of bytes."""

from __future__ import annotations

from metalcore.engine.ir.function import Module
from metalcore.engine.ir.operands import Operands
from metalcore.engine.ir.tokens import Line, unescaped
from metalcore.engine.ir.types import Type
from metalcore.engine.ir.values import Aggregate, Const, Global, Value

_BRACKETS = {"{": "}", "[": "]", "<": ">"}


def initial_value(module: Module, variable: Global) -> Value | None:
    """What a variable is set to, with its members as values; None where it is defined elsewhere.

    >>> from metalcore.engine.ir.reader import parse
    >>> module = parse("@t = constant { i32, [2 x i8] } { i32 7, [2 x i8] [i8 1, i8 2] }")
    >>> initial_value(module, module.globals["@t"]).items[1].items
    (<i8 1>, <i8 2>)
    """
    if not variable.value:
        return None
    return _value(Operands(module), Line(variable.value), variable.value_type)


def _value(operands: Operands, line: Line, ty: Type) -> Value:
    start = line.at
    close = _BRACKETS.get(line.peek())
    if close is None:
        return operands.operand(line, ty, {})
    opened = line.next()
    if is_packed := opened == "<" and line.accept("{"):
        close = "}"
    items: list[Value] = []
    while not line.accept(close):
        items.append(_value(operands, line, operands.type(line)))
        line.accept(",")
    if is_packed:
        line.expect(">")
    return Aggregate(ty, " ".join(line.tokens[start : line.at]), tuple(items))


def bytes_of(value: Value | None) -> bytes:
    """The bytes of an array of i8, which LLVM writes as a text or as numbers; b"" of what is none."""
    if isinstance(value, Aggregate):
        found = [item.value for item in value.items if isinstance(item, Const)]
        return bytes(number & 255 for number in found if number is not None)
    if isinstance(value, Const) and value.text.startswith('c"'):
        return unescaped(value.text[2:-1])
    if isinstance(value, Const) and value.text == "zeroinitializer" and value.type.kind == "array":
        return bytes(value.type.length)
    return b""
