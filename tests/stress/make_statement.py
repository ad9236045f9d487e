"""Random statements: declarations, stores and control flow of every kind, all of it bounded."""

from __future__ import annotations

from tests.stress import tree as t
from tests.stress.context import SLOTS, Place, Variable
from tests.stress.make_scalar import LETTERS
from tests.stress.make_simd import Meetings
from tests.stress.types import BOOL, INT, UINT, Array, Pointer, Scalar, Struct, Type, Vector

ME = t.Var(UINT, "me")


class Statements(Meetings):
    """Mixin: `body(place, count)`."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.uses_simd = self.chance(0.6)
        self.uses_return = self.chance(0.4)
        # Most kernels are small: they compile fast and point at the fault; a few are large.
        self.length, self.max_depth = self.pick([(3, 1), (4, 2), (4, 2), (5, 2), (6, 2), (6, 3), (10, 3)])

    def body(self, place: Place, count: int, end: t.Body = ()) -> t.Body:
        """Statements in a scope of their own; `end` comes last (a break, say)."""
        self.scopes.append([])
        out = self.statements(place, count)
        inner = self.scopes.pop()
        mixed = self.mix(inner, self.variables()) if self.chance(0.8) else []
        return (*out, *mixed, *end)

    def mix(self, inner: list[Variable], outer: list[Variable]) -> list[t.Stmt]:
        """Lets variables that are about to vanish change others, or the compiler would drop what made them."""
        places = [v for v in outer if v.writable and isinstance(v.type, Scalar) and v.type.is_int]
        out: list[t.Stmt] = []
        for v in self.random.sample(inner, min(len(inner), 3)):
            e: t.Expr = v.expr
            if isinstance(e.type, Struct):
                name, ft = self.pick(e.type.fields)
                e = t.Member(ft, e, name)
            if isinstance(e.type, Vector):
                e = t.Swizzle(e.type.element, e, self.pick(LETTERS[: e.type.size]))
            targets = [p for p in places if p != v]
            if isinstance(e.type, Scalar) and targets:
                target = self.pick(targets)
                assert isinstance(target.type, Scalar)
                out.append(t.Assign(target.expr, "^=", self.cast(target.type, e)))
        return out

    def statements(self, place: Place, count: int) -> t.Body:
        out: list[t.Stmt] = []
        for _ in range(count):
            out += self.one(place)
        return tuple(out)

    def one(self, place: Place) -> list[t.Stmt]:
        self.budget = 24
        self.simd_here = place.simd and self.uses_simd
        nested = place.depth < self.max_depth
        main = place.function is None
        weights = {
            "fresh": 4.0,
            "change": 4.0 if any(v.writable for v in self.variables()) else 0.0,
            "branch": 2.5 * nested,
            "loop": 2.0 * nested,
            "switch": 1.0 * nested,
            "array": 0.8,
            "element": 1.5 * bool(self.arrays()),
            "point": 0.8 * (main and any(b.role == "input" for b in self.buffers.values())),
            "store": 1.2 * main,
            "leave": 0.8 * (place.in_loop or (self.uses_return and place.depth > 0)),
            "simd": 2.5 * self.simd_here,
            "exchange": 1.5 * (place.uniform and main and any(not a for _, a in self.shared.values())),
            "count": 0.8 * (place.uniform and main and any(a for _, a in self.shared.values())),
            "device_atomic": 0.8 * (main and any(b.role == "atomic" for b in self.buffers.values())),
            "together": 1.2 * (place.uniform and main and nested),
        }
        return getattr(self, self.weighted(weights))(place)  # type: ignore[no-any-return]

    # ---- straight code ----
    def declare_value(self, type_: Type, depth: int) -> t.Expr:
        """A value for a variable; a scalar's may be of another type, which C++ converts."""
        if isinstance(type_, Scalar) and type_ != BOOL and self.chance(0.2):
            if type_.is_float:
                return self.scalar(self.pick(self.all_types), depth)
            return self.scalar(self.pick(self.ints), depth)
        return self.value(type_, depth)

    def fresh(self, place: Place | None = None) -> list[t.Stmt]:
        type_ = self.any_type()
        value = self.declare_value(type_, 3)
        return [self.keep(type_, value)]

    def change(self, place: Place) -> list[t.Stmt]:
        """Assigns to a variable, a field or some components."""
        targets = [v for v in self.variables() if v.writable and not isinstance(v.type, (Array, Pointer))]
        if not targets:
            return self.fresh()
        v = self.pick(targets)
        target: t.Expr = v.expr
        if isinstance(v.type, Struct) and self.chance(0.7):
            name, ft = self.pick(v.type.fields)
            target = t.Member(ft, target, name)
        if isinstance(target.type, Vector) and self.chance(0.5):
            count = self.random.randint(1, target.type.size)
            names = "".join(self.random.sample(LETTERS[: target.type.size], count))
            el = target.type.element
            target = t.Swizzle(el if count == 1 else Vector(el, count), target, names)
        type_ = target.type
        if isinstance(type_, Scalar) and type_ != BOOL and self.chance(0.35):
            return [self.compound(target, type_)]
        value = self.declare_value(type_, 3)
        if isinstance(type_, Scalar) and isinstance(value.type, Scalar) and value.type.is_float and type_.is_int:
            value = self.cast(type_, value)
        return [t.Assign(target, "=", value)]

    def compound(self, target: t.Expr, type_: Scalar) -> t.Stmt:
        if type_.is_float:
            return t.Assign(target, self.pick(["+=", "-=", "*="]), self.scalar(type_, 2))
        if type_.kind == "uint" and type_.bits >= 32:
            return t.Assign(target, self.pick(["+=", "-=", "*=", "^=", "|=", "&="]), self.scalar(type_, 2))
        if type_.bits < 16 or (type_.bits == 16 and type_.kind == "int"):
            return t.Assign(target, self.pick(["+=", "-=", "*=", "^="]), self.scalar(type_, 2))
        amount = t.binary("&", self.natural(1), t.Lit(INT, 7))
        if self.chance(0.4):
            return t.Assign(target, ">>=", amount)
        return t.Assign(target, self.pick(["^=", "|=", "&="]), self.scalar(type_, 2))

    def array(self, place: Place) -> list[t.Stmt]:
        type_ = Array(self.pick(self.all_types), self.pick([3, 4, 5, 8]))
        self.budget = 16
        value = self.value(type_, 1)
        v = self.declare(Variable(self.name("arr"), type_))
        return [t.Decl(type_, v.name, value)]

    def element(self, place: Place) -> list[t.Stmt]:
        v = self.pick(self.arrays())
        assert isinstance(v.type, Array)
        target = t.Index(v.type.element, v.expr, self.index(v.type.size, 2))
        return [t.Assign(target, "=", self.scalar(v.type.element, 2))]

    def point(self, place: Place) -> list[t.Stmt]:
        """A pointer whose buffer depends on a condition."""
        types = [b.type for b in self.buffers.values() if b.role == "input" and isinstance(b.type, Scalar)]
        type_ = Pointer(self.pick(types))
        value = self.pointer(type_, 2)
        v = self.declare(Variable(self.name("p"), type_, writable=False))
        return [t.Decl(type_, v.name, value)]

    def slot(self, type_: Scalar | Vector) -> t.Index:
        """An element of an output buffer that this thread owns."""
        name = f"o_{type_.name}"
        if name not in self.buffers:
            self.buffers[name] = t.Buffer(name, type_, "output", 0, SLOTS)
        place = t.binary("+", t.binary("*", ME, t.Lit(UINT, SLOTS)), self.small_uint(SLOTS - 1))
        return t.Index(type_, t.Var(Pointer(type_), name), place)

    def store(self, place: Place) -> list[t.Stmt]:
        type_ = self.pick(self.all_types)
        target = self.slot(type_)
        op = "="
        if type_.is_float or (type_.kind == "uint" and type_.bits >= 32):
            op = self.pick(["=", "+=", "*="])
        return [t.Assign(target, op, self.scalar(type_, 3))]

    # ---- control flow ----
    def branch(self, place: Place) -> list[t.Stmt]:
        inner = place.inside(uniform=False)
        then = self.body(inner, self.random.randint(1, 3))
        other = self.body(inner, self.random.randint(1, 3)) if self.chance(0.5) else ()
        self.budget = 16
        return [t.If(self.boolean(3), then, other)]

    def leave(self, place: Place) -> list[t.Stmt]:
        """A break, continue or return behind a condition, with some statements before it."""
        kinds = []
        if place.in_loop:
            kinds += ["continue"]
        if place.breakable:
            kinds += ["break"] * 2
        if self.uses_return or place.function is not None:
            kinds += ["return"]
        kind = self.pick(kinds)
        self.budget = 16
        cond = self.boolean(2)
        # Lanes leave a loop in different rounds: who is together in a block that only leads out is nowhere defined.
        leads_out = (kind == "break" or kind == "return") and place.in_loop
        inner = place.inside(uniform=False, simd=place.simd and not leads_out)
        self.scopes.append([])
        before = self.statements(inner, self.random.randint(0, 2)) if place.depth < self.max_depth else ()
        end: t.Stmt = t.Break() if kind == "break" else t.Continue()
        if kind == "return":
            self.budget = 8
            end = t.Return(self.value(place.function, 2)) if place.function is not None else t.Return()
        self.scopes.pop()
        return [t.If(cond, (*before, end))]

    def loop(self, place: Place) -> list[t.Stmt]:
        kind = self.pick(["for", "for", "while", "do"])
        inner = place.inside(uniform=False, in_loop=True, breakable=True)
        count = self.random.randint(1, 3)
        self.budget = 10
        if kind == "for":
            name = self.name("i")
            type_ = self.pick([INT, UINT, *self.ints])
            bound: t.Expr = self.index(self.random.randint(2, 7), 2)
            if self.chance(0.25):  # a bound that falls or grows with the lane, as a triangle has
                bound = self.line(36 if self.chance(0.7) else 12) or bound
            self.scopes.append([Variable(name, type_, writable=False)])
            body = self.body(inner, count)
            self.scopes.pop()
            start = t.Lit(type_, self.random.randint(0, 1))
            cond = t.binary("<", t.Var(type_, name), self.cast(type_, bound))
            if self.chance(0.15):
                cond = t.binary("&&", cond, self.boolean(2))
            return [t.For(type_, name, start, cond, self.pick([1, 1, 1, 2]), body)]
        # The counter keeps the loop short whatever its own condition says.
        counter = Variable(self.name("n"), INT, writable=False)
        declare = t.Decl(INT, counter.name, t.Lit(INT, 0))
        self.declare(counter)
        tick = t.Assign(counter.expr, "+=", t.Lit(INT, 1))
        body = (tick, *self.body(inner, count))
        self.budget = 10
        limit = t.binary("<", counter.expr, t.Lit(INT, self.random.randint(1, 6)))
        cond = t.binary("&&", limit, self.boolean(2))
        return [declare, t.While(cond, body) if kind == "while" else t.DoWhile(body, cond)]

    def switch(self, place: Place) -> list[t.Stmt]:
        inner = place.inside(uniform=False, breakable=False)
        self.budget = 10
        mask = self.pick([3, 7])
        value = t.binary("&", self.natural(2), t.Lit(INT, mask))
        labels: list[int | None] = [*self.random.sample(range(mask + 1), self.random.randint(2, min(5, mask))), None]
        if self.chance(0.3):
            labels.pop()
        if self.chance(0.3):
            self.random.shuffle(labels)
        cases = []
        while labels:
            mine = [labels.pop(0)]
            if labels and self.chance(0.2):
                mine.append(labels.pop(0))
            end: t.Body = (t.Break(),) if self.chance(0.65) else ()
            cases.append(t.Case(tuple(mine), self.body(inner, self.random.randint(0, 2), end)))
        return [t.Switch(value, tuple(cases))]

    def together(self, place: Place) -> list[t.Stmt]:
        """Control flow that all threads of a group take together, so barriers may stand inside."""
        inner = place.inside()
        uniforms = self.uniforms()
        bound: t.Expr = t.Lit(UINT, self.random.randint(1, 4))
        if uniforms and self.chance(0.6):
            bound = t.binary("%", t.Cast(UINT, self.pick(uniforms).expr), t.Lit(UINT, 4))
        if self.chance(0.4):
            cond = t.binary(self.pick(["<", ">=", "!="]), bound, t.Lit(UINT, self.random.randint(0, 3)))
            return [t.If(cond, self.body(inner, 2), self.body(inner, 1) if self.chance(0.4) else ())]
        name = self.name("i")
        self.scopes.append([Variable(name, UINT, writable=False, uniform=True)])
        # No break: a thread that leaves on its own would miss a barrier.
        body = self.body(inner, self.random.randint(1, 3))
        self.scopes.pop()
        return [t.For(UINT, name, t.Lit(UINT, 0), t.binary("<", t.Var(UINT, name), bound), 1, body)]
