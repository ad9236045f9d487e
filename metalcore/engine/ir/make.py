"""Instructions that are made, not read: each maker tests the types of its operands.

What they give stands nowhere yet; a `Builder` gives it a name and a place.
"""

from __future__ import annotations

from collections.abc import Sequence

from metalcore.engine.ir.opcodes import BINARY, CASTS
from metalcore.engine.ir.types import I1, I64, PTR, VOID, Type
from metalcore.engine.ir.values import Block, Const, Instr, Value

_FLOATS = frozenset(("fadd", "fsub", "fmul", "fdiv", "frem"))


def number(ty: Type, value: int) -> Const:
    """A constant integer."""
    if ty.kind != "int":
        raise TypeError(f"{value} as {ty.text}")
    if ty.bits == 1:
        return Const(ty, "true" if value else "false")
    return Const(ty, str(value))


def zero(ty: Type) -> Const:
    return number(ty, 0) if ty.kind == "int" else Const(ty, "zeroinitializer")


def binary(op: str, a: Value, b: Value) -> Instr:
    """
    >>> binary("add", number(I64, 1), Const(PTR, "null"))
    Traceback (most recent call last):
    TypeError: add of i64 and ptr
    """
    wanted = a.type.is_float if op in _FLOATS else a.type.kind == "int"
    if op not in BINARY or a.type.text != b.type.text or not (wanted or a.type.kind == "vector"):
        raise TypeError(f"{op} of {a.type.text} and {b.type.text}")
    return Instr(op, a.type, [a, b])


def compare(pred: str, a: Value, b: Value) -> Instr:
    """Two integers or pointers."""
    if a.type.text != b.type.text or a.type.kind not in ("int", "ptr"):
        raise TypeError(f"icmp {pred} of {a.type.text} and {b.type.text}")
    return Instr("icmp", I1, [a, b], extra={"pred": pred})


def select(condition: Value, a: Value, b: Value) -> Instr:
    if condition.type is not I1 or a.type.text != b.type.text:
        raise TypeError(f"select by {condition.type.text} of {a.type.text} and {b.type.text}")
    return Instr("select", a.type, [condition, a, b])


def cast(op: str, value: Value, to: Type) -> Instr:
    source = value.type
    sizes = {"trunc": source.bits > to.bits, "zext": source.bits < to.bits, "sext": source.bits < to.bits}
    kinds = {"ptrtoint": ("ptr", "int"), "inttoptr": ("int", "ptr")}
    wrong = op in sizes and not (sizes[op] and source.kind == to.kind == "int")
    wrong = wrong or (op in kinds and kinds[op] != (source.kind, to.kind))
    wrong = wrong or (op == "bitcast" and (source.all_bits != to.all_bits or source.is_ptr or to.is_ptr))
    if op not in CASTS or wrong:
        raise TypeError(f"{op} of {source.text} to {to.text}")
    return Instr(op, to, [value])


def load(ty: Type, pointer: Value, align: int) -> Instr:
    _is_pointer("load", pointer)
    return Instr("load", ty, [pointer], extra={"align": align})


def store(value: Value, pointer: Value, align: int) -> Instr:
    _is_pointer("store", pointer)
    return Instr("store", VOID, [value, pointer], extra={"stored": value.type, "align": align})


def alloca(ty: Type, align: int) -> Instr:
    return Instr("alloca", PTR, [], extra={"allocated": ty, "align": align})


def address(source: Type, pointer: Value, indices: Sequence[Value]) -> Instr:
    """A getelementptr."""
    _is_pointer("getelementptr", pointer)
    ty = source
    for position, index in enumerate(indices):
        if index.type.kind != "int":
            raise TypeError(f"an index of type {index.type.text}")
        if position:
            known = index.value if isinstance(index, Const) else None
            if (ty.kind == "struct" and (known is None or known >= len(ty.items))) or not ty.items:
                raise TypeError(f"{ty.text} has no such member")
            ty = ty.inner(known or 0)
    return Instr("getelementptr", PTR, [pointer, *indices], extra={"source": source})


def phi(ty: Type, incoming: Sequence[tuple[Value, Block]]) -> Instr:
    for value, _ in incoming:
        if value.type.text != ty.text:
            raise TypeError(f"a phi of {ty.text} with {value.type.text}")
    return Instr("phi", ty, [value for value, _ in incoming], targets=[block for _, block in incoming])


def call(ty: Type, callee: str, args: Sequence[Value]) -> Instr:
    return Instr("call", ty, list(args), extra={"callee": callee})


def ret(value: Value | None) -> Instr:
    return Instr("ret", VOID, [] if value is None else [value])


def offset(pointer: Value, count: int | Value) -> Instr:
    """The address some bytes behind another."""
    from metalcore.engine.ir.types import I8

    return address(I8, pointer, [number(I64, count) if isinstance(count, int) else count])


def _is_pointer(op: str, value: Value) -> None:
    if value.type.kind != "ptr":
        raise TypeError(f"{op} through {value.type.text}")
