"""Arrays and the statements that touch them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.hostile import elements as el
from tests.hostile import tree as h
from tests.hostile.make_index import Indices
from tests.stress import tree as t
from tests.stress.types import INT, UCHAR, UINT, ULONG, USHORT, Scalar

VIEWS = ("uchar", "ushort", "uint", "ulong", "char", "int", "float", "half")
SIZES = (1, 2, 7, 31, 32, 33, 64, 100, 256, 1000, 3000, 5000, 9000)


class Accesses(Indices):
    """The part of the generator that knows arrays."""

    def __init__(self, r: random.Random, family: str) -> None:
        super().__init__(r, family)
        self.arrays: list[h.Array] = []
        self.views: set[str] = set()  # private arrays that are touched in several sizes
        self.atomic_op: dict[str, str] = {}
        self.constant_value: set[str] = set()  # written through pointers: always the same value
        self.readable: set[str] | None = None
        self.writing: set[str] | None = None

    # ---- arrays ----
    def new_array(self, space: str, element: el.Element, count: int, writable: bool = False, **more: Any) -> str:
        name = f"{ {'device': 'x', 'constant': 'c', 'table': 'k', 'private': 'a', 'listed': 'l'}.get(space, 's')}"
        name = f"{name}{len(self.arrays)}"
        if space == "device" and "placement" not in more:
            more["placement"] = self.placement()
        self.arrays.append(h.Array(name, space, element, count, writable, **more))
        return name

    def placement(self) -> str:
        return self.pick(["end", "end", "start", "middle"])

    def size(self) -> int:
        return self.pick(SIZES)

    def new_input(self, element: el.Element, space: str = "device") -> str:
        if space == "device" and self.chance(0.3):
            return self.new_array(space, element, 1, scale="thread")
        count = self.size()
        if space == "constant":  # it starts at a multiple of 4 bytes, wherever it ends
            count = -(-count * element.size // 4) * 4 // element.size if 4 % element.size == 0 else count
            placement = "start" if count * element.size % 4 else self.placement()
            return self.new_array(space, element, count, placement=placement)
        return self.new_array(space, element, count, placement=self.placement())

    def new_target(self, element: el.Element) -> str:
        if self.chance(0.3):
            return self.new_array("device", element, 1, True, scale="thread")
        return self.new_array("device", element, self.size(), True)

    def inputs(self, count: int, elements: Sequence[el.Element], space: str = "device") -> None:
        for _ in range(count):
            self.new_input(self.pick(elements), space)

    def targets(self, count: int, elements: Sequence[el.Element]) -> None:
        for _ in range(count):
            self.new_target(self.pick(elements))

    def privates(self, count: int, views: bool) -> None:
        for _ in range(count):
            element = self.pick([*el.SCALARS, *(e for e in el.VECTORS if e.exact), *el.RECORDS])
            if views:
                element = self.pick(list(el.SCALARS))
            size = self.pick([1, 3, 4, 5, 8, 16, 17, 32])
            more: dict[str, Any] = {}
            if self.chance(0.2) and size >= 4 and size % 4 == 0:
                more["rows"] = self.pick([2, 4])
            elif self.chance(0.2):
                more["around"] = self.pick([1, 2, 3])
            name = self.new_array("private", element, size, True, **more)
            if views:
                self.views.add(name)

    # ---- accesses ----
    def access(self, a: h.Array, write: bool) -> h.Access:
        kind = self.random.random()
        if a.space == "private" and a.name in self.views and kind < 0.65:
            element = el.BY_NAME[self.pick(VIEWS)]
            form = "cast" if kind < 0.35 else "bytes"
            unit = 1 if form == "bytes" else element.size
            return h.Access(a.name, element, self.index(max(1, a.count * a.element.size // unit), False), form)
        if self.wild and kind < 0.4 and not a.atomic:
            element = el.BY_NAME[self.pick([*VIEWS, "float4", "uint2"])]
            form = "cast" if kind < 0.2 else "bytes"
            return h.Access(a.name, element, self.index(max(1, a.count * a.element.size), False), form)
        if a.rows and self.chance(0.8):
            inner = a.count // a.rows
            index = self.index(inner, False)
            row = h.binary("&", h.cast(UINT, self.source()), t.Lit(UINT, a.rows - 1))
            return h.Access(a.name, a.element, index, "plain", row)
        form = "function" if self.chance(0.15) and not a.atomic else "plain"
        if a.rows:
            form = "function"
        if not write and not a.atomic and a.space in ("device", "constant", "listed") and self.chance(0.15):
            other = self.pick([e for e in el.SCALARS if e.size <= a.element.size])
            count = a.count * a.element.size // other.size
            return h.Access(a.name, other, self.index(count, bool(a.scale)), "cast")
        return h.Access(a.name, a.element, self.index(a.count, bool(a.scale)), form)

    def value(self, a: h.Array, x: h.Access) -> h.Expr:
        """What is written: for memory that threads share a function of the place alone."""
        if a.space == "private":
            return h.binary("+", h.cast(UINT, self.source()), self.lit(UINT, 17, 0x1234567, 0xFFFFFFF0))
        salt = t.Lit(UINT, 1000003 * (1 + len(a.name) + a.count) & 0xFFFFFFFF)
        if a.name in self.constant_value or self.wild:
            return salt
        return h.binary("+", h.binary("*", h.cast(UINT, x.index), t.Lit(UINT, 2654435)), salt)

    def touch(self) -> list[h.Stmt]:
        """One access to one array, and what is made of it."""
        arrays = [a for a in self.arrays if a.scale != "simdgroup"]
        a = self.pick(arrays)
        if a.atomic:
            access = self.access(a, True)
            op = self.atomic_op[a.name]
            kind = a.element.parts[0][0]
            value: h.Expr = self.lit(kind, 1, 3, 100, 77) if kind.is_int else t.Lit(INT, self.pick([1, 2, 3]))
            if op in ("store", "exchange"):
                value = h.cast(kind, h.binary("+", h.cast(UINT, access.index), t.Lit(UINT, 99)))
            elif kind.is_int and self.chance(0.5):
                value = h.cast(kind, h.binary("+", t.Var(UINT, "me"), t.Lit(UINT, 3)))
            return [h.Atomic(op, access, value)]
        shared = a.space in ("threadgroup", "dynamic")
        write = a.writable and (a.space != "private" or self.chance(0.45)) and not (shared and not self.writing)
        if shared and self.writing is not None:
            write = a.name in self.writing
        if write and a.element.exact is False and a.space != "private" and not self.wild:
            return []
        access = self.access(a, write)
        if write:
            return [h.Store(access, self.value(a, access))]
        if self.chance(0.35):
            name = self.name("r")
            self.scopes[-1].append((name, UINT))
            return [h.Load(access, name)]
        return [h.Load(access)]

    def statement(self) -> list[h.Stmt]:
        kind = self.random.random()
        if kind < 0.45:
            return self.touch()
        if kind < 0.65:
            return self.under(self.condition(), lambda: self.touch())
        if kind < 0.72:
            inside = self.guarded()
            if inside:
                return inside
        if kind < 0.9:
            return self.looped()
        return self.under(self.condition(), self.looped)

    def under(self, cond: h.Expr, make: Any) -> list[h.Stmt]:
        self.scopes.append([])
        then = make()
        self.scopes[-1] = []
        other = make() if self.chance(0.25) else []
        self.scopes.pop()
        return [h.If(cond, tuple(then), tuple(other))] if then else []

    def guarded(self) -> list[h.Stmt]:
        """`if (i < n) ... a[i]`, with an index of any kind."""
        plain = [a for a in self.arrays if not (a.scale or a.atomic or a.rows or a.around or a.space == "private")]
        plain = [a for a in plain if a.space not in ("threadgroup", "dynamic")]
        if not plain:
            return []
        a = self.pick(plain)
        type_: Scalar = self.pick([UINT, UINT, ULONG])
        name = self.name("i")
        index = h.binary("+", self.core(type_, 3), h.Param(type_, self.number(), "any"))
        var = t.Var(type_, name)
        access = h.Access(a.name, a.element, var)
        inner: h.Stmt = h.Load(access)
        if a.writable:
            if not a.element.exact:
                return []
            inner = h.Store(access, self.value(a, access))
        self.scopes[-1].append((name, type_))
        return [h.Let(type_, name, index), h.If(h.binary("<", var, t.Lit(type_, a.count)), (inner,))]

    def looped(self) -> list[h.Stmt]:
        """A loop with a counter of any kind, among them those that wrap around zero."""
        name = self.name("j")
        kind = self.random.random()
        type_: Scalar = self.pick([UINT, UINT, INT, USHORT, UCHAR, ULONG])
        count: h.Expr = h.Param(type_, self.number(), "count")
        if self.chance(0.3):
            count = h.Own(type_, self.number(), "count")
        var = t.Var(type_, name)
        step = 1
        if kind < 0.5:
            start: h.Expr = t.Lit(type_, self.pick([0, 0, 1]))
            cond = h.binary("<", var, count)
            step = self.pick([1, 1, 2])
        elif kind < 0.7 and type_.kind == "uint":
            start = t.Lit(type_, type_.high - self.pick([0, 1, 3]))
            cond = h.binary("!=", var, count)
        elif kind < 0.85 and type_.kind == "uint":
            start, cond, step = count, h.binary("!=", var, t.Lit(type_, type_.high)), type_.high
        else:
            start, cond = t.Lit(type_, 0), h.binary("<", var, t.Lit(type_, self.pick([3, 4, 8])))
        self.scopes.append([(name, type_)])
        body = self.touch()
        if self.chance(0.3):
            body += self.under(self.condition(), self.touch)
        if self.chance(0.25):
            body.append(h.Break(self.condition()))
        self.scopes.pop()
        return [h.For(type_, name, start, cond, step, tuple(body))] if body else []

    def walk(self, first: str, second: str | None) -> list[h.Stmt]:
        """A pointer that moves, and may be set to another array on the way."""
        a = next(x for x in self.arrays if x.name == first)
        p = self.name("p")
        body: list[h.Stmt] = [h.Point(p, first, a.element, self.index(a.count, bool(a.scale)))]
        if second is not None and self.chance(0.6):
            b = next(x for x in self.arrays if x.name == second)
            body.append(h.Repoint(p, self.condition(), second, self.index(b.count, bool(b.scale))))
        j = self.name("j")
        self.scopes.append([(j, UINT)])
        access = h.Access(p, a.element, self.lit(INT, 0, 0, 1, -1), "pointer")
        inner: list[h.Stmt]
        inner = [h.Store(access, self.value(a, access))] if a.writable else [h.Load(access)]
        by: h.Expr = self.lit(INT, 1, 1, 2, -1, 32)
        if self.chance(0.3):
            by = h.Param(self.pick([INT, ULONG, UINT]), self.number(), "count")
        inner.append(h.Move(p, by))
        if self.chance(0.3):
            inner = [h.If(self.condition(), tuple(inner))]
        self.scopes.pop()
        count = h.Param(UINT, self.number(), "count")
        body.append(h.For(UINT, j, t.Lit(UINT, 0), h.binary("<", t.Var(UINT, j), count), 1, tuple(inner)))
        return body

    def matrix(self, load: bool, hostile: str, element: el.Element, safe: str) -> h.Stmt:
        type_ = self.pick([UINT, INT, ULONG])
        stride: h.Expr = self.lit(ULONG, 8, 8, 9, 16, 1 if load else 10)
        if self.chance(0.3):
            stride = h.Param(ULONG, self.number(), "count" if load else "factor")
        origin = None
        if self.chance(0.4):
            origin = (h.Param(ULONG, self.number(), "count"), self.lit(ULONG, 0, 1, 2))
        index = self.uniform(type_)
        return h.Matrix(load, hostile, element, index, stride, origin, self.chance(0.3), safe)
