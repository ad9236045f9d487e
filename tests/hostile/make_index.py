"""Indices: integer expressions that stay inside, leave by one, wrap once or many times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from tests.hostile import tree as h
from tests.stress import tree as t
from tests.stress.types import CHAR, INT, LONG, SHORT, UCHAR, UINT, ULONG, USHORT, Scalar

T = TypeVar("T")
INDEX_TYPES = (UINT,) * 8 + (INT,) * 3 + (USHORT, SHORT, ULONG, ULONG, LONG, UCHAR, CHAR)
WRAPS = (0x40000001, 0x80000001, 0xC0000001, 0x20000001, 0xFFFFFFFF, 0x10000001, 0x40000000, 0x08000001, 0xAAAAAAAB)


class Indices:
    """Random choices, variables in scope, and expressions of them."""

    def __init__(self, r: random.Random, family: str) -> None:
        self.random, self.family = r, family
        self.numbers = 0
        self.names = 0
        self.scopes: list[list[tuple[str, Scalar]]] = [[]]
        self.constants: list[tuple[str, int]] = []
        self.dims = 1
        self.positions = "uint"

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def pick(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers - 1

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    @property
    def wild(self) -> bool:
        return self.family == "undefined"

    def lit(self, type_: Scalar, *values: int) -> t.Lit:
        value = self.pick(values)
        return t.Lit(type_, max(type_.low, min(type_.high, value)))

    # ---- what an index is made of ----
    def seat(self) -> h.Expr:
        """A number of the thread's place."""
        names = ["me"] * 6 + ["tid"] * 3 + ["lane"] * 2 + ["grp", "sg", "total"]
        if self.dims > 1:
            names += [f"p{c}" for c in "xyz"[: self.dims]] * 3
        name = self.pick(names)
        if name in ("px", "py", "pz"):
            return t.Var(USHORT if self.positions == "ushort" else UINT, name)
        return t.Var(UINT, name)

    def source(self) -> h.Expr:
        """The place, a variable, a number of the launch, a function constant."""
        known = [t.Var(kind, name) for scope in self.scopes for name, kind in scope]
        if known and self.chance(0.5):
            return self.pick(known)
        kind = self.random.random()
        if kind < 0.7:
            return self.seat()
        if kind < 0.8 and self.constants:
            return t.Var(UINT, self.constants[0][0])
        if kind < 0.9:
            return h.Param(UINT, self.number(), "count")
        return h.Own(UINT, self.number(), "count")

    def core(self, type_: Scalar, depth: int = 2) -> h.Expr:
        """Arithmetic in `type_` (narrow types: in int, cut afterwards)."""
        a = h.cast(type_, self.source())
        for _ in range(self.random.randint(0, depth)):
            a = self.step(type_, a)
        return h.cast(type_, a)

    def step(self, type_: Scalar, a: h.Expr) -> h.Expr:
        wrapping = self.family == "wrapping"
        often = self.family in ("wrapping", "mixed", "undefined", "loops", "private")
        unsigned = type_.kind == "uint" and type_.bits >= 32
        kind = self.random.random()
        if unsigned and often and kind < (0.45 if wrapping else 0.12):
            factor: h.Expr = h.Param(type_, self.number(), "factor")
            if self.chance(0.5):
                factor = t.Lit(type_, self.pick(WRAPS))
            return h.binary("*", a, factor)
        if unsigned and kind < (0.6 if wrapping else 0.17):
            far = h.Param(type_, self.number(), "any")
            return h.binary(self.pick(["+", "-", "^"]), a, far)
        if kind < 0.66:
            return h.binary("*", a, self.lit(type_, 1, 2, 3, 4, 5, 7, 16, 33))
        if kind < 0.74:
            return h.binary(self.pick(["+", "-"]), a, h.cast(type_, self.source()))
        if kind < 0.8 and unsigned:
            return h.binary("^", a, self.lit(type_, 1, 3, 7, 31, 32, 0x80000000))
        if kind < 0.86:
            return h.binary("&", a, self.lit(type_, 1, 3, 7, 15, 31, 63, 127))
        if kind < 0.9 and unsigned:
            amount: h.Expr = self.lit(UINT, 1, 2, 3, 5, 28, 30, 31)
            if self.wild and self.chance(0.5):
                amount = h.Param(UINT, self.number(), "any")
            return h.binary(self.pick(["<<", ">>"]), a, amount)
        if kind < 0.94 and unsigned:
            divisor: h.Expr = self.lit(type_, 2, 3, 4, 5, 8, 32, 33)
            if self.wild and self.chance(0.5):
                divisor = h.Param(type_, self.number(), "count")
            return h.binary(self.pick(["/", "%"]), a, divisor)
        if self.wild and type_.kind == "int":
            return h.binary("*", a, h.Param(type_, self.number(), "factor"))
        return h.binary("-", self.lit(type_, 31, 40, 64), a)

    def index(self, count: int, scaled: bool) -> h.Expr:
        """An index into `count` elements; `scaled`: so many for each thread."""
        type_ = self.pick(INDEX_TYPES if self.family != "wrapping" else (*INDEX_TYPES, *(UINT,) * 8))
        kind = self.random.random()
        free: h.Expr
        free = h.Own(type_, self.number(), "index") if self.chance(0.4) else h.Param(type_, self.number(), "index")
        if kind < 0.12:
            return free
        if kind < 0.2 and type_.bits == 64:  # the sum is made after the extension
            inner = h.cast(self.pick([UINT, UINT, INT, USHORT]), self.core(UINT))
            return h.binary("+", h.cast(type_, inner), free)
        if kind < 0.3:
            # Any number, brought inside by a mask or a remainder
            unsigned = type_ if type_.kind == "uint" and type_.bits >= 32 else UINT
            any_number = h.binary("+", self.core(unsigned), h.Param(unsigned, self.number(), "any"))
            if self.chance(0.5):
                mask = (1 << count.bit_length()) - 1 if self.chance(0.3) else (1 << (count.bit_length() - 1)) - 1
                return h.binary("&", any_number, t.Lit(unsigned, mask))
            limit = count + (self.pick([1, 2]) if self.chance(0.2) else 0)
            return h.binary("%", any_number, t.Lit(unsigned, limit))
        if kind < 0.36:
            cond = self.condition()
            other = h.cast(type_, h.binary("&", h.cast(UINT, self.source()), t.Lit(UINT, min(63, count // 2))))
            return t.Ternary(type_, cond, free, other)  # type: ignore[arg-type]
        return h.cast(type_, h.binary("+", self.core(type_), free))

    def condition(self) -> h.Expr:
        kind = self.random.random()
        a = self.source()
        if kind < 0.3:
            mask = self.pick([1, 1, 3, 3, 7, 2, 4, 16])
            value = self.pick([0, 0, 1]) if mask & 1 else 0
            return h.binary("==", h.binary("&", h.cast(UINT, a), t.Lit(UINT, mask)), t.Lit(UINT, value))
        if kind < 0.55:
            return h.binary("<", h.cast(UINT, a), self.lit(UINT, 1, 5, 16, 31, 32, 33, 60, 100))
        if kind < 0.7:
            return h.binary(">=", h.cast(UINT, self.seat()), h.Param(UINT, self.number(), "count"))
        if kind < 0.8:
            return h.binary("!=", h.Own(UINT, self.number(), "count"), t.Lit(UINT, 3))
        if kind < 0.9:
            return h.binary("<", h.cast(INT, a), self.lit(INT, 7, 20, 40))
        return h.binary("==", h.Param(UINT, self.number(), "count"), t.Lit(UINT, self.pick([0, 1, 2])))

    def uniform(self, type_: Scalar) -> h.Expr:
        """The same in a simdgroup."""
        parts: list[h.Expr] = [h.Param(type_, self.number(), "index")]
        if self.chance(0.5):
            where = t.Var(UINT, self.pick(["grp", "sg"]))
            parts.append(h.cast(type_, h.binary("*", where, self.lit(UINT, 1, 8, 64, 64))))
        return parts[0] if len(parts) == 1 else h.binary("+", parts[1], parts[0])
