"""Random statements in which threads meet: simd functions, barriers with an exchange, atomics."""

from __future__ import annotations

from collections.abc import Callable

from tests.stress import tree as t
from tests.stress.context import Place, Variable
from tests.stress.make_vector import VectorExpressions
from tests.stress.types import BOOL, FLOAT, HALF, UINT, USHORT, Array, Scalar, Type, Vector

LANE = t.Var(UINT, "lane")
TID = t.Var(UINT, "tid")
COUNT = t.Var(UINT, "group_threads")


class Meetings(VectorExpressions):
    """Mixin: each method gives one or more statements."""

    def keep(self, type_: Type, value: t.Expr) -> t.Decl:
        """A new variable in the current scope."""
        v = self.declare(Variable(self.name("v"), type_))
        return t.Decl(type_, v.name, value)

    def narrow_types(self) -> list[Scalar]:
        return [i for i in self.ints if i.bits <= 32]

    def simd(self, place: Place) -> list[t.Stmt]:
        choices: list[Callable[[], list[t.Stmt]]] = [
            self.reduce_ints,
            self.reduce_ints,
            self.reduce_floats,
            self.vote,
            self.shuffle,
            self.shuffle,
            self.first,
            self.quad,
        ]
        return self.pick(choices)()

    def reduce_ints(self) -> list[t.Stmt]:
        scalar = self.pick(self.narrow_types())
        names = ["sum", "min", "max", "and", "or", "xor", "prefix_inclusive_sum", "prefix_exclusive_sum"]
        if scalar == UINT:
            names += ["product", "prefix_inclusive_product", "prefix_exclusive_product"]
        name = self.pick(names)
        type_: Type = scalar
        if self.vectors and name in ("sum", "min", "max") and self.chance(0.4):
            type_ = Vector(scalar, self.pick([2, 3, 4]))
        return [self.keep(type_, t.Library(type_, f"simd_{name}", (self.value(type_, 2),)))]

    def reduce_floats(self) -> list[t.Stmt]:
        """Sums of small whole numbers, whose order is no matter; min and max of anything calm."""
        type_ = self.pick(self.floats or (FLOAT,))
        if self.chance(0.5):
            name = self.pick(["simd_min", "simd_max"])
            return [self.keep(type_, t.Library(type_, name, (self.calm(self.scalar(type_, 2)),)))]
        whole = t.binary("&", self.scalar(UINT, 2), t.Lit(UINT, 31 if type_ == HALF else 4095))
        name = self.pick(["sum", "prefix_inclusive_sum", "prefix_exclusive_sum"])
        return [self.keep(type_, t.Library(type_, f"simd_{name}", (t.Cast(type_, whole),)))]

    def vote(self) -> list[t.Stmt]:
        name = self.pick(["any", "all", "ballot", "is_first"])
        if name == "is_first":
            return [self.keep(BOOL, t.Library(BOOL, "simd_is_first", ()))]
        type_ = UINT if name == "ballot" else BOOL
        return [self.keep(type_, t.Library(type_, f"simd_{name}", (self.boolean(2),)))]

    def first(self) -> list[t.Stmt]:
        type_ = self.pick([*self.narrow_types(), *self.floats])
        return [self.keep(type_, t.Library(type_, "simd_broadcast_first", (self.scalar(type_, 2),)))]

    def shuffle(self) -> list[t.Stmt]:
        """A value of another lane, used only where that lane is active."""
        type_: Type = self.pick([*self.narrow_types(), *self.floats])
        if self.vectors and self.chance(0.3):
            fitting = [v for v in self.vectors if v.element.bits <= 32]
            type_ = self.pick(fitting) if fitting else type_
        name = self.pick(["shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast", "rotate"])
        own = self.keep(type_, self.value(type_, 2))
        if name == "shuffle":
            by: t.Expr = t.binary("&", self.scalar(UINT, 2), t.Lit(UINT, 31))
        else:
            by = self.small_uint(31) if self.chance(0.5) else t.Lit(UINT, self.pick([1, 4, 16]))
        name = self.pick(["shuffle_rotate_up", "shuffle_rotate_down"]) if name == "rotate" else name
        step = self.keep(USHORT, by)
        d = t.Cast(UINT, t.Var(USHORT, step.name))
        sources: dict[str, t.Expr] = {
            "shuffle": d,
            "broadcast": d,
            "shuffle_xor": t.binary("^", LANE, d),
            "shuffle_up": t.Ternary(UINT, t.binary("<", LANE, d), LANE, t.binary("-", LANE, d)),
            "shuffle_down": t.Ternary(
                UINT, t.binary(">", t.binary("+", LANE, d), t.Lit(UINT, 31)), LANE, t.binary("+", LANE, d)
            ),
            "shuffle_rotate_up": t.binary("&", t.binary("-", LANE, d), t.Lit(UINT, 31)),
            "shuffle_rotate_down": t.binary("&", t.binary("+", LANE, d), t.Lit(UINT, 31)),
        }
        source = sources[name]
        mine, moved_by = t.Var(type_, own.name), t.Var(USHORT, step.name)
        return [own, step, *self.guarded(type_, f"simd_{name}", mine, moved_by, source)]

    def guarded(self, type_: Type, function: str, own: t.Expr, step: t.Expr, source: t.Expr) -> list[t.Stmt]:
        moved = t.Decl(type_, self.name("raw"), t.Library(type_, function, (own, step)))
        active = t.Decl(UINT, self.name("act"), t.Library(UINT, "simd_ballot", (t.Lit(BOOL, True),)))
        bit = t.binary("&", t.binary(">>", t.Var(UINT, active.name), source), t.Lit(UINT, 1))
        chosen = t.Ternary(type_, t.binary("!=", bit, t.Lit(UINT, 0)), t.Var(type_, moved.name), own)
        return [moved, active, self.keep(type_, chosen)]

    def quad(self) -> list[t.Stmt]:
        scalar = self.pick(self.narrow_types())
        if self.chance(0.5):
            name = self.pick(["quad_sum", "quad_min", "quad_max", "quad_or"])
            return [self.keep(scalar, t.Library(scalar, name, (self.scalar(scalar, 2),)))]
        own = self.keep(scalar, self.scalar(scalar, 2))
        step = self.keep(USHORT, self.small_uint(3))
        d = t.Cast(UINT, t.Var(USHORT, step.name))
        name = self.pick(["quad_shuffle_xor", "quad_broadcast"])
        source = t.binary("^", LANE, d)
        if name == "quad_broadcast":
            source = t.binary("+", t.binary("&", LANE, t.Lit(UINT, 28)), d)
        return [own, step, *self.guarded(scalar, name, t.Var(scalar, own.name), t.Var(USHORT, step.name), source)]

    # ---- threadgroup memory ----
    def barrier(self) -> t.Barrier:
        self.barriers += 1
        return t.Barrier(self.barriers)

    def exchange(self, place: Place) -> list[t.Stmt]:
        """Write the own slot, wait, read another's slot, wait."""
        name = self.pick([n for n, (_, atomic) in self.shared.items() if not atomic])
        array = self.shared[name][0]
        base = t.Var(array, name)
        el = array.element
        out: list[t.Stmt] = [t.Assign(t.Index(el, base, TID), "=", self.scalar(el, 2)), self.barrier()]
        other = t.binary("%", self.scalar(UINT, 2), COUNT)
        if self.chance(0.3):  # the neighbour, as a scan does
            other = t.binary("%", t.binary("+", TID, self.small_uint(9)), COUNT)
        out.append(self.keep(el, t.Index(el, base, other)))
        return [*out, self.barrier()]

    def count(self, place: Place) -> list[t.Stmt]:
        """Atomic updates of threadgroup memory, read after a barrier."""
        name = self.pick([n for n, (_, atomic) in self.shared.items() if atomic])
        array = self.shared[name][0]
        base = t.Var(array, name)
        at = t.binary("%", self.scalar(UINT, 1), t.Library(UINT, "min", (t.Lit(UINT, array.size), COUNT)))
        update = t.Atomic(self.shared_op(name), base, at, self.scalar(UINT, 2))
        again = t.binary("%", self.scalar(UINT, 1), t.Library(UINT, "min", (t.Lit(UINT, array.size), COUNT)))
        maybe: t.Stmt = t.If(self.boolean(1), (update,)) if self.chance(0.5) else update
        read = self.keep(UINT, t.Library(UINT, "atomic_load", (t.Index(UINT, base, again),)))
        return [maybe, self.barrier(), read, self.barrier()]

    def shared_op(self, name: str) -> str:
        return name.split("_")[1]

    def device_atomic(self, place: Place) -> list[t.Stmt]:
        buffer = self.pick([b for b in self.buffers.values() if b.role == "atomic"])
        op = buffer.name.split("_")[1]
        base = t.Var(Array(UINT, buffer.size), buffer.name)
        type_ = buffer.type
        assert isinstance(type_, Scalar)
        return [t.Atomic(op, base, self.index(buffer.size, 1), self.scalar(type_, 2))]
