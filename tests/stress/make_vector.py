"""Random vector and struct expressions."""

from __future__ import annotations

from tests.stress import tree as t
from tests.stress.context import INPUT_SIZE
from tests.stress.make_scalar import LETTERS, ScalarExpressions
from tests.stress.types import BOOL, COMPARISONS, FLOAT, HALF, Array, Pointer, Scalar, Struct, Type, Vector, unsigned


class VectorExpressions(ScalarExpressions):
    """Mixin: `value(type, depth)` for any type."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.vectors: tuple[Vector, ...] = ()
        if self.chance(0.4):
            pool = [Vector(e, n) for e in self.all_types for n in (2, 3, 4)]
            self.vectors = tuple(self.random.sample(pool, min(3, len(pool))))

    def value(self, type_: object, depth: int) -> t.Expr:
        if isinstance(type_, Scalar):
            return self.scalar(type_, depth)
        if isinstance(type_, Vector):
            return self.vector(type_, depth)
        if isinstance(type_, Struct):
            return self.struct(type_, depth)
        if isinstance(type_, Pointer):
            return self.pointer(type_, depth)
        assert isinstance(type_, Array)
        return t.Construct(type_, tuple(self.scalar(type_.element, 1) for _ in range(type_.size)))

    def any_type(self) -> Type:
        pool: list[Type] = [*self.all_types, *self.all_types, BOOL, *self.vectors, *self.vectors, *self.structs]
        return self.pick(pool)

    def pointer(self, type_: Pointer, depth: int) -> t.Expr:
        """An input buffer or a pointer variable, perhaps moved on, perhaps chosen by a condition."""
        bases: list[t.Expr] = [t.Var(type_, b.name) for b in self.visible_inputs() if b.type == type_.element]
        if not bases:  # in a helper: a parameter, as it is
            return self.pick(self.of_type(type_)).expr
        one, two = self.pick(bases), self.pick(bases)
        assert isinstance(type_.element, Scalar)
        if self.chance(0.6):
            one = t.Binary(type_, "+", one, self.index(16, depth))
        return t.Ternary(type_, self.boolean(depth), one, two)

    def struct(self, type_: Struct, depth: int) -> t.Expr:
        found = self.of_type(type_)
        if found and self.chance(0.5):
            one = self.pick(found).expr
            if self.chance(0.3):
                return t.Ternary(type_, self.boolean(depth - 1), one, self.pick(found).expr)
            return one
        makers = [f for f in self.functions if f.type == type_ and f.name not in self.convergent]
        makers = [f for f in makers if all(self.has_base(pt) for _, pt in f.parameters)]
        if makers and depth > 0 and self.chance(0.4):
            f = self.pick(makers)
            return t.Call(type_, f.name, tuple(self.value(pt, depth - 1) for _, pt in f.parameters))
        return t.Construct(type_, tuple(self.value(ft, depth - 1) for _, ft in type_.fields))

    def vector(self, type_: Vector, depth: int) -> t.Expr:
        self.budget -= 1
        el = type_.element
        if depth <= 0 or self.budget < 0:
            return self.vector_leaf(type_)
        weights = {"leaf": 1, "binary": 5, "ternary": 1, "construct": 2, "swizzle": 1.5, "cast": 1}
        kind = self.weighted({**weights, "library": 1.5, "unary": 0.7, "load": 1.5})
        if kind == "load":
            found = [b for b in self.visible_inputs() if b.type == type_]
            if found:
                b = self.pick(found)
                return t.Index(type_, t.Var(Pointer(type_), b.name), self.index(INPUT_SIZE, depth - 1))
        if kind == "binary":
            return self.vector_binary(type_, depth - 1)
        if kind == "ternary":
            one, two = self.vector(type_, depth - 1), self.vector(type_, depth - 1)
            return t.Ternary(type_, self.boolean(depth - 1), one, two)
        if kind == "construct":
            return self.construct(type_, depth - 1)
        if kind == "swizzle":
            wide = [v for v in self.variables() if isinstance(v.type, Vector) and v.type.element == el]
            if wide:
                v = self.pick(wide)
                assert isinstance(v.type, Vector)
                names = "".join(self.pick(LETTERS[: v.type.size]) for _ in range(type_.size))
                return t.Swizzle(type_, v.expr, names)
        if kind == "cast":
            sources = [v for v in self.variables() if isinstance(v.type, Vector) and v.type.size == type_.size]
            good = [v for v in sources if isinstance(v.type, Vector) and (el.is_float or v.type.element.is_int)]
            if good:
                return t.Cast(type_, self.pick(good).expr)
        if kind == "library":
            return self.vector_library(type_, depth - 1)
        if kind == "unary":
            if el.is_float:
                return t.unary("-", self.vector(type_, depth - 1))
            return t.unary("~", self.vector(type_, depth - 1))
        return self.vector_leaf(type_)

    def vector_leaf(self, type_: Vector) -> t.Expr:
        found = self.of_type(type_)
        if found and self.chance(0.8):
            return self.pick(found).expr
        return t.Construct(type_, tuple(self.leaf(type_.element) for _ in range(type_.size)))

    def construct(self, type_: Vector, depth: int) -> t.Expr:
        el = type_.element
        if self.chance(0.25):
            return t.Cast(type_, self.scalar(el, depth))  # one value for all components
        if type_.size > 2 and self.chance(0.6):
            pair = self.vector(Vector(el, 2), depth)
            rest = [self.scalar(el, depth) for _ in range(type_.size - 2)]
            at = self.random.randint(0, len(rest))
            return t.Construct(type_, (*rest[:at], pair, *rest[at:]))
        return t.Construct(type_, tuple(self.scalar(el, depth) for _ in range(type_.size)))

    def vector_binary(self, type_: Vector, depth: int) -> t.Expr:
        el = type_.element
        if el.is_float:
            b: t.Expr = self.vector(type_, depth) if self.chance(0.7) else self.scalar(el, depth)
            return t.binary(self.pick(["+", "-", "*", "/"]), self.vector(type_, depth), b)
        op = self.pick(["+", "-", "*", "&", "|", "^", "<<", ">>"])
        if op in ("<<", ">>"):
            amount = t.binary("&", self.vector(type_, depth), t.Lit(el, el.bits - 1))
            if op == "<<" and el.kind == "int" and el.bits >= 32:
                u = Vector(unsigned(el), type_.size)
                return t.Cast(type_, t.binary(op, t.Cast(u, self.vector(type_, depth)), t.Cast(u, amount)))
            return t.binary(op, self.vector(type_, depth), amount)
        if op in "+-*" and el.kind == "int" and el.bits >= 32:
            u = Vector(unsigned(el), type_.size)
            one, two = self.vector(type_, depth), self.vector(type_, depth)
            return t.Cast(type_, t.binary(op, t.Cast(u, one), t.Cast(u, two)))
        b = self.vector(type_, depth) if self.chance(0.7) else self.scalar(el, depth)
        return t.binary(op, self.vector(type_, depth), b)

    def vector_library(self, type_: Vector, depth: int) -> t.Expr:
        a, b = self.vector(type_, depth), self.vector(type_, depth)
        if self.chance(0.5):
            cond = t.binary(self.pick(COMPARISONS), self.vector(type_, depth), self.vector(type_, depth))
            return t.Library(type_, "select", (a, b, cond))
        if type_.element.is_float:
            assert type_.element in (HALF, FLOAT)
            return t.Library(type_, "fma", (a, b, self.vector(type_, depth)))
        return t.Library(type_, self.pick(["min", "max"]), (a, b))

    def boolean(self, depth: int) -> t.Expr:
        if depth > 0 and self.vectors and self.chance(0.15):
            v = self.pick(self.vectors)
            cond = t.binary(self.pick(COMPARISONS), self.vector(v, depth - 1), self.vector(v, depth - 1))
            return t.Library(BOOL, self.pick(["any", "all"]), (cond,))
        return super().boolean(depth)
