"""The syntax tree of a generated kernel. Nodes are immutable, so that the shrinker can share what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.stress.types import Array, Scalar, Struct, Type, Vector, result, unary_result

# ---- expressions: each carries its type -------------------------------------------------------------------------


@dataclass(frozen=True)
class Lit:
    type: Scalar
    value: Any


@dataclass(frozen=True)
class Var:
    type: Type
    name: str


@dataclass(frozen=True)
class Unary:
    type: Type
    op: str
    a: Expr


@dataclass(frozen=True)
class Binary:
    type: Type
    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Ternary:
    type: Type
    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Cast:
    """`T(a)` for scalars and vectors of one size."""

    type: Type
    a: Expr


@dataclass(frozen=True)
class AsType:
    """`as_type<T>(a)`: the same bytes."""

    type: Type
    a: Expr


@dataclass(frozen=True)
class Index:
    """`base[index]`: base is an array, a pointer or a buffer's name."""

    type: Type
    base: Expr
    index: Expr


@dataclass(frozen=True)
class Member:
    type: Type
    base: Expr
    field: str


@dataclass(frozen=True)
class Swizzle:
    type: Type
    base: Expr
    names: str


@dataclass(frozen=True)
class Construct:
    """`float4(a, b)` from scalars and vectors, `S{a, b}` for structs, `{a, b}` for arrays."""

    type: Type
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Call:
    """A function of the kernel's own file."""

    type: Type
    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Library:
    """A function of Metal's library. The simd_ and quad_ ones work on the active lanes."""

    type: Type
    function: str
    args: tuple[Expr, ...]


Expr = Lit | Var | Unary | Binary | Ternary | Cast | AsType | Index | Member | Swizzle | Construct | Call | Library


def binary(op: str, a: Expr, b: Expr) -> Binary:
    return Binary(result(op, a.type, b.type), op, a, b)


def unary(op: str, a: Expr) -> Unary:
    return Unary(unary_result(op, a.type), op, a)


# ---- statements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decl:
    """`T name = init;` The value is converted to T where the types differ."""

    type: Type
    name: str
    init: Expr


@dataclass(frozen=True)
class Assign:
    """`target op value;` where op is "=", "+=" and so on."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True)
class If:
    cond: Expr
    then: Body
    other: Body = ()


@dataclass(frozen=True)
class For:
    """`for (T name = start; cond; name += step) body`."""

    type: Scalar
    name: str
    start: Expr
    cond: Expr
    step: int
    body: Body


@dataclass(frozen=True)
class While:
    cond: Expr
    body: Body


@dataclass(frozen=True)
class DoWhile:
    body: Body
    cond: Expr


@dataclass(frozen=True)
class Case:
    labels: tuple[int | None, ...]  # None is `default`
    body: Body


@dataclass(frozen=True)
class Switch:
    value: Expr
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Continue:
    pass


@dataclass(frozen=True)
class Return:
    value: Expr | None = None


@dataclass(frozen=True)
class Barrier:
    """Threadgroup barrier; every living thread of the group must reach it. `number` tells barriers apart."""

    number: int


@dataclass(frozen=True)
class Atomic:
    """`atomic_fetch_<op>_explicit(&buffer[index], value, memory_order_relaxed);` the result is dropped."""

    op: str
    buffer: Expr
    index: Expr
    value: Expr


Stmt = Decl | Assign | If | For | While | DoWhile | Switch | Break | Continue | Return | Barrier | Atomic
Body = tuple[Stmt, ...]

# ---- the kernel -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    type: Type
    name: str
    parameters: tuple[tuple[str, Type], ...]
    body: Body


@dataclass(frozen=True)
class Buffer:
    """role: "input" (const device T*), "output" (device T*, `per_thread` slots for each thread),
    "atomic" (device atomic_T*), "uniform" (constant T&)."""

    name: str
    type: Scalar | Vector
    role: str
    size: int
    per_thread: int = 0


@dataclass(frozen=True)
class Attribute:
    """A thread attribute as a parameter: `uint2 gid [[thread_position_in_grid]]`."""

    type: Scalar | Vector
    name: str
    attribute: str


@dataclass(frozen=True)
class Table:
    """`constant T name[] = {...};` at file scope."""

    type: Array
    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Kernel:
    seed: int
    structs: tuple[Struct, ...]
    tables: tuple[Table, ...]
    functions: tuple[Function, ...]
    buffers: tuple[Buffer, ...]
    attributes: tuple[Attribute, ...]
    shared: tuple[tuple[str, Array, bool], ...]  # threadgroup arrays: name, type, atomic or not
    body: Body
    threads: tuple[int, int, int]
    group_size: tuple[int, int, int]
