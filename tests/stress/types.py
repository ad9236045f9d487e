"""The types of generated kernels, and the C++ rules that find the type of an operation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)  # one object for each type, below: compared by identity, which is fast
class Scalar:
    name: str
    kind: str  # "bool", "int", "uint", "float"
    bits: int

    @property
    def is_int(self) -> bool:
        """True for integers of both signs; bool is apart."""
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype[np.generic]:
        names = {"bool": "bool", "int": f"int{self.bits}", "uint": f"uint{self.bits}", "float": f"float{self.bits}"}
        return np.dtype(names[self.kind])


BOOL = Scalar("bool", "bool", 8)
CHAR = Scalar("char", "int", 8)
UCHAR = Scalar("uchar", "uint", 8)
SHORT = Scalar("short", "int", 16)
USHORT = Scalar("ushort", "uint", 16)
INT = Scalar("int", "int", 32)
UINT = Scalar("uint", "uint", 32)
LONG = Scalar("long", "int", 64)
ULONG = Scalar("ulong", "uint", 64)
HALF = Scalar("half", "float", 16)
FLOAT = Scalar("float", "float", 32)

INTS = (CHAR, UCHAR, SHORT, USHORT, INT, UINT, LONG, ULONG)
FLOATS = (HALF, FLOAT)
SCALARS = (BOOL, *INTS, *FLOATS)


@dataclass(frozen=True)
class Vector:
    element: Scalar
    size: int

    @property
    def name(self) -> str:
        return f"{self.element.name}{self.size}"


@dataclass(frozen=True)
class Array:
    """A private or threadgroup array."""

    element: Scalar
    size: int

    @property
    def name(self) -> str:
        return f"{self.element.name}[{self.size}]"


@dataclass(frozen=True)
class Pointer:
    """A pointer to elements in device or constant memory, read only."""

    element: Scalar | Vector

    @property
    def name(self) -> str:
        return f"const device {self.element.name}*"


@dataclass(frozen=True)
class Struct:
    name: str
    fields: tuple[tuple[str, Type], ...]

    def field(self, name: str) -> Type:
        return dict(self.fields)[name]

    def position(self, name: str) -> int:
        return [n for n, _ in self.fields].index(name)


Type = Scalar | Vector | Array | Pointer | Struct

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGICAL = ("&&", "||")
SHIFTS = ("<<", ">>")


def unsigned(t: Scalar) -> Scalar:
    return {8: UCHAR, 16: USHORT, 32: UINT, 64: ULONG}[t.bits]


def promote(t: Scalar) -> Scalar:
    """Integral promotion: what is narrower than int becomes int. half stays half in Metal."""
    if t.kind == "bool" or (t.is_int and t.bits < 32):
        return INT
    return t


def common(a: Scalar, b: Scalar) -> Scalar:
    """The usual arithmetic conversions."""
    if a.is_float or b.is_float:
        return FLOAT if FLOAT in (a, b) else HALF
    a, b = promote(a), promote(b)
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, other = (a, b) if a.kind == "int" else (b, a)
    return other if other.bits >= signed.bits else signed


def result(op: str, a: Type, b: Type) -> Type:
    """The type of `a op b`."""
    if isinstance(a, Vector) or isinstance(b, Vector):
        vector = a if isinstance(a, Vector) else b
        assert isinstance(vector, Vector)
        if isinstance(a, Vector) and isinstance(b, Vector):
            assert a == b, (op, a, b)
        return Vector(BOOL, vector.size) if op in COMPARISONS + LOGICAL else vector
    if isinstance(a, Pointer):
        return a
    assert isinstance(a, Scalar) and isinstance(b, Scalar), (op, a, b)
    if op in COMPARISONS + LOGICAL:
        return BOOL
    if op in SHIFTS:
        return promote(a)
    return common(a, b)


def unary_result(op: str, a: Type) -> Type:
    if isinstance(a, Vector):
        return Vector(BOOL, a.size) if op == "!" else a
    assert isinstance(a, Scalar)
    return BOOL if op == "!" else promote(a)
