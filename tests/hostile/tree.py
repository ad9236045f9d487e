"""The tree of a hostile kernel: integer expressions of tests/stress, and statements that touch memory."""

from __future__ import annotations

from dataclasses import dataclass

from tests.hostile.elements import Element
from tests.stress import tree as t
from tests.stress.types import Scalar, Type, result


# ---- expressions (with Lit, Var, Unary, Binary, Ternary and Cast of tests/stress/tree.py) --------------------------
@dataclass(frozen=True)
class Param:
    """A number that the compiler cannot know, the same for all threads: `T(b[number])`. The oracle chooses it."""

    type: Scalar
    number: int
    role: str  # "index" (chosen where it is used), "factor", "count", "any", "same" (as the number before it)


@dataclass(frozen=True)
class Own:
    """A number of each thread's own: `T(v[number * total + me])`."""

    type: Scalar
    number: int
    role: str


Expr = t.Lit | t.Var | t.Unary | t.Binary | t.Ternary | t.Cast | Param | Own


def binary(op: str, a: Expr, b: Expr) -> t.Binary:
    made: Type = result(op, a.type, b.type)
    return t.Binary(made, op, a, b)  # type: ignore[arg-type]


def cast(type_: Scalar, a: Expr) -> Expr:
    return a if a.type == type_ else t.Cast(type_, a)  # type: ignore[arg-type]


# ---- arrays ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Array:
    """space: "device", "constant" (arguments), "table" (constant of the file), "threadgroup", "dynamic" (threadgroup
    memory that the launch gives), "private", "listed" (reached by the address in item `slot` of a list of arrays).
    """

    name: str
    space: str
    element: Element
    count: int
    writable: bool = False
    atomic: bool = False
    rows: int = 0  # private: declared as [rows][count / rows]
    around: int = 0  # private: so many elements of a struct in front of it and behind it
    placement: str = "end"  # device, constant, listed: where the guard page is: "end", "start", "middle"
    table: str = ""  # listed: the argument that holds its address
    slot: int = 0
    sparse: bool = False  # private: too large to be written whole; only what the kernel wrote is read
    scale: str = ""  # device: `count` is for each "thread", "simdgroup" or "group" of the launch

    @property
    def on_host(self) -> bool:
        return self.space in ("device", "constant", "listed")

    @property
    def msl_space(self) -> str:
        words = {"constant": "constant", "table": "constant", "threadgroup": "threadgroup", "dynamic": "threadgroup"}
        return words.get(self.space, "thread" if self.space == "private" else "device")


# ---- statements --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Access:
    """form: "plain" `a[i]`, "cast" `((T*)a)[i]`, "bytes" `*(T*)((uchar*)a + i)`, "function" `get(a, i)`,
    "pointer" `p[i]` where `array` is the name of a pointer variable."""

    array: str
    element: Element
    index: Expr
    form: str = "plain"
    row: Expr | None = None


@dataclass(frozen=True)
class Let:
    type: Scalar
    name: str
    value: Expr


@dataclass(frozen=True)
class Set:
    name: str
    type: Scalar
    value: Expr


@dataclass(frozen=True)
class Load:
    """`acc = acc * 33 + fold(access);`, with a name for what was read. (A read that nothing uses would not be made.)"""

    access: Access
    name: str = ""


@dataclass(frozen=True)
class Store:
    access: Access
    value: Expr  # a uint, made an element


@dataclass(frozen=True)
class Atomic:
    """op: add sub min max and or xor exchange store load cas. The value is of the array's type; the result, which is 0
    out of bounds, is added to `acc` where the index is out of bounds, and always for a load."""

    op: str
    access: Access
    value: Expr


@dataclass(frozen=True)
class If:
    cond: Expr
    then: Body
    other: Body = ()


@dataclass(frozen=True)
class For:
    type: Scalar
    name: str
    start: Expr
    cond: Expr
    step: int
    body: Body


@dataclass(frozen=True)
class Break:
    cond: Expr


@dataclass(frozen=True)
class Barrier:
    pass


@dataclass(frozen=True)
class Point:
    """`space T* name = array + index;`"""

    name: str
    array: str
    element: Element
    index: Expr


@dataclass(frozen=True)
class Move:
    """`name += by;`"""

    name: str
    by: Expr


@dataclass(frozen=True)
class Repoint:
    """`if (cond) name = array + index;`"""

    name: str
    cond: Expr
    array: str
    index: Expr


@dataclass(frozen=True)
class Matrix:
    """`simdgroup_load` from the hostile place and a store to `safe`, or the other way round. The place is uniform in
    each simdgroup. `safe` has 64 elements for each simdgroup of the grid."""

    load: bool
    array: str
    element: Element
    index: Expr
    stride: Expr
    origin: tuple[Expr, Expr] | None
    transpose: bool
    safe: str


Stmt = Let | Set | Load | Store | Atomic | If | For | Break | Barrier | Point | Move | Repoint | Matrix
Body = tuple[Stmt, ...]


@dataclass(frozen=True)
class Kernel:
    seed: int
    family: str
    dims: int
    arrays: tuple[Array, ...]
    body: Body
    constants: tuple[tuple[str, int], ...] = ()  # function constants (uint)
    undefined: bool = False  # it may do what C++ gives no meaning to: only safety is promised
    positions: str = "uint"  # type of the thread's position: uint or ushort
    unrolled: bool = False  # the lengths of private arrays stand in the loops that write them

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)
