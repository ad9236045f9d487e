"""Random scalar expressions with a meaning for every input: no overflow, no zero divisor, no wild shift."""

from __future__ import annotations

from collections.abc import Callable

from tests.stress import tree as t
from tests.stress.arith import FLOAT_TYPES
from tests.stress.context import INPUT_SIZE, Context
from tests.stress.types import (
    BOOL,
    CHAR,
    COMPARISONS,
    FLOAT,
    HALF,
    INT,
    INTS,
    LONG,
    SHORT,
    UCHAR,
    UINT,
    ULONG,
    USHORT,
    Pointer,
    Scalar,
    Struct,
    Vector,
    promote,
    unsigned,
)

NARROW = (CHAR, UCHAR, SHORT, USHORT)
LETTERS = "xyzw"


class ScalarExpressions(Context):
    """Mixin: `scalar(type, depth)` and what it is made of."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        ints = [INT, UINT, *self.random.sample(INTS, 3)]
        self.ints = tuple(dict.fromkeys(ints))
        self.floats = self.pick([(FLOAT,), (FLOAT,), (HALF, FLOAT), (HALF, FLOAT), ()])
        self.index_bound: t.Expr | None = None

    @property
    def all_types(self) -> tuple[Scalar, ...]:
        return (*self.ints, *self.floats)

    def scalar(self, type_: Scalar, depth: int) -> t.Expr:
        """An expression of exactly this type."""
        self.budget -= 1
        if depth <= 0 or self.budget < 0:
            return self.leaf(type_)
        if type_ == BOOL:
            return self.boolean(depth)
        if self.chance(0.12):
            return self.leaf(type_)
        if self.chance(0.10):
            one, two = self.scalar(type_, depth - 1), self.scalar(type_, depth - 1)
            return t.Ternary(type_, self.boolean(depth - 1), one, two)
        if self.chance(0.22):
            loaded = self.loaded(type_, depth - 1)
            if loaded is not None:
                return loaded
        if self.chance(0.15):
            called = self.called(type_, depth - 1)
            if called is not None:
                return called
        return self.integer(type_, depth) if type_.is_int else self.real(type_, depth)

    def natural(self, depth: int) -> t.Expr:
        """An integer expression of whatever type."""
        return self.scalar(self.pick(self.ints), depth)

    # ---- leaves ----
    def named(self, type_: Scalar) -> list[t.Expr]:
        """Variables, vector components and fields of this type."""
        found: list[t.Expr] = []
        for v in self.variables():
            if v.type == type_:
                found += [v.expr] * 2
            elif isinstance(v.type, Vector) and v.type.element == type_:
                found.append(t.Swizzle(type_, v.expr, LETTERS[self.random.randrange(v.type.size)]))
            elif isinstance(v.type, Struct):
                found += [t.Member(type_, v.expr, name) for name, ft in v.type.fields if ft == type_]
        return found

    def leaf(self, type_: Scalar) -> t.Expr:
        found = self.named(type_)
        if found and self.chance(0.8):
            return self.pick(found)
        others = [v for v in self.variables() if isinstance(v.type, Scalar) and v.type != type_]
        if others and self.chance(0.5):
            return self.cast(type_, self.pick(others).expr)
        return self.literal(type_)

    # ---- conversions ----
    def cast(self, type_: Scalar, e: t.Expr) -> t.Expr:
        """`type_(e)`, through a helper that keeps the value in range where a float becomes an integer."""
        src = e.type
        assert isinstance(src, Scalar)
        if src == type_:
            return e
        if src.is_float and type_.is_int:
            return t.Call(type_, self.fitting(src, type_), (e,))
        return t.Cast(type_, e)

    def fitting(self, src: Scalar, dst: Scalar) -> str:
        name = f"fit_{src.name}_{dst.name}"
        if all(f.name != name for f in self.functions):
            make = FLOAT_TYPES[src.bits]
            x = t.Var(src, "x")
            low = -1.0 if dst.kind == "uint" else -(2.0 ** (dst.bits - 1))
            high = 2.0 ** (dst.bits if dst.kind == "uint" else dst.bits - 1)
            if src == HALF:
                low, high = max(low, -65504.0), min(high, 65504.0)
            inside = t.binary("&&", t.binary(">", x, t.Lit(src, make(low))), t.binary("<", x, t.Lit(src, make(high))))
            value = t.Ternary(dst, inside, t.Cast(dst, x), t.Lit(dst, 7))
            self.functions.insert(0, t.Function(dst, name, (("x", src),), (t.Return(value),)))
        return name

    def calm(self, e: t.Expr) -> t.Expr:
        """No NaN and no -0: what min, max and as_type would leave open."""
        src = e.type
        assert isinstance(src, Scalar)
        name = f"calm_{src.name}"
        if all(f.name != name for f in self.functions):
            x = t.Var(src, "x")
            make = FLOAT_TYPES[src.bits]
            value = t.Ternary(src, t.binary("!=", x, x), t.Lit(src, make(1.5)), t.binary("+", x, t.Lit(src, make(0.0))))
            self.functions.insert(0, t.Function(src, name, (("x", src),), (t.Return(value),)))
        return t.Call(src, name, (e,))

    def index(self, size: int, depth: int) -> t.Expr:
        """An integer expression in 0 .. size-1."""
        line = self.line(size) if self.chance(0.4) else None
        if line is not None:
            return line
        if self.chance(0.2):
            return self.literal_index(size)
        e = self.scalar(self.pick([i for i in self.ints if i.kind == "uint"]), depth)
        if size & (size - 1) == 0 and self.chance(0.6):
            return t.binary("&", e, t.Lit(UINT, size - 1))
        return t.binary("%", e, t.Lit(UINT, size))

    def line(self, size: int) -> t.Expr | None:
        """An index that grows or falls by the same step from thread to thread, where one fits."""
        if self.in_helper or not self.highest:
            return None
        name = self.pick(list(self.highest))
        step, start = self.pick([1, 1, 1, 2, 3, 4, 8]), self.random.randint(0, 9)
        span = self.highest[name] * step
        if span + start >= size:
            return None
        e: t.Expr = t.Var(UINT, name)
        kind = self.pick([UINT, UINT, UINT, INT, ULONG])
        e = t.Cast(kind, e) if kind != UINT else e
        e = t.binary("*", e, t.Lit(kind, step)) if step > 1 else e
        if self.chance(0.3):
            return t.binary("-", t.Lit(kind, span + start), e)
        return t.binary("+", e, t.Lit(kind, start)) if start else e

    def literal_index(self, size: int) -> t.Expr:
        return self.small_uint(size - 1)

    # ---- memory and calls ----
    def loaded(self, type_: Scalar, depth: int) -> t.Expr | None:
        """An element of a buffer, table, pointer or private array, or nothing where there is none."""
        options: list[Callable[[], t.Expr]] = []
        for b in self.visible_inputs():
            if b.type == type_:
                base = t.Var(Pointer(type_), b.name)
                options.append(lambda base=base: t.Index(type_, base, self.index(INPUT_SIZE, depth)))  # type: ignore[misc]
        for table in self.tables:
            if table.type.element == type_:
                base_t = t.Var(table.type, table.name)
                size = table.type.size
                options.append(lambda b=base_t, n=size: t.Index(type_, b, self.index(n, depth)))  # type: ignore[misc]
        for v in self.arrays(type_):
            size = v.type.size  # type: ignore[union-attr]
            options.append(lambda v=v, n=size: t.Index(type_, v.expr, self.index(n, depth)))  # type: ignore[misc]
        for v in self.pointers(type_):  # a pointer may be offset by up to half of the buffer
            options.append(lambda v=v: t.Index(type_, v.expr, self.index(INPUT_SIZE // 2, depth)))  # type: ignore[misc]
        return self.pick(options)() if options else None

    def called(self, type_: Scalar, depth: int) -> t.Expr | None:
        choices = [
            f
            for f in self.functions
            if f.type == type_
            and not f.name.startswith(("fit_", "calm_"))
            and (self.simd_here or f.name not in self.convergent)
            and all(self.has_base(pt) for _, pt in f.parameters)
        ]
        if not choices:
            return None
        f = self.pick(choices)
        return t.Call(type_, f.name, tuple(self.value(pt, depth - 1) for _, pt in f.parameters))

    def value(self, type_: object, depth: int) -> t.Expr:
        raise NotImplementedError  # any type: the vector mixin has it

    # ---- booleans ----
    def boolean(self, depth: int) -> t.Expr:
        self.budget -= 1
        if depth <= 0 or self.budget < 0:
            found = self.of_type(BOOL)
            if found and self.chance(0.4):
                return self.pick(found).expr
            return t.binary(self.pick(COMPARISONS), self.leaf(self.pick(self.ints)), self.leaf(self.pick(self.ints)))
        kind = self.random.random()
        if kind < 0.5:
            return t.binary(self.pick(COMPARISONS), self.natural(depth - 1), self.natural(depth - 1))
        if kind < 0.65 and self.floats:
            a, b = self.pick(self.floats), self.pick(self.all_types)
            return t.binary(self.pick(COMPARISONS), self.scalar(a, depth - 1), self.scalar(b, depth - 1))
        if kind < 0.85:
            return t.binary(self.pick(["&&", "||"]), self.boolean(depth - 1), self.boolean(depth - 1))
        if kind < 0.92:
            return t.unary("!", self.boolean(depth - 1))
        bit = t.binary("&", self.natural(depth - 1), t.Lit(INT, 1 << self.random.randrange(6)))
        return t.binary("!=", bit, t.Lit(INT, 0))

    # ---- integers ----
    def integer(self, type_: Scalar, depth: int) -> t.Expr:
        weights = {"arith": 5, "bits": 3, "shift": 2, "unary": 1, "library": 2.5, "cast": 2, "as_type": 0.8}
        # CPUs have no vector division of 64-bit integers: a few of them show what many would
        kind = self.weighted({**weights, "divide": 2 if type_.bits < 64 else 0.3})
        return getattr(self, f"int_{kind}")(type_, depth - 1)  # type: ignore[no-any-return]

    def int_arith(self, type_: Scalar, depth: int) -> t.Expr:
        op = self.pick(["+", "-", "*"])
        wide = promote(type_)
        if (wide == INT) and self.chance(0.4):
            # narrow operands become int, where the result always fits
            pair = [n for n in NARROW if n in self.ints] or [CHAR]
            a, b = self.pick(pair), self.pick(pair)
            if op == "*" and a == b == USHORT:
                op = "+"
            return self.cast(type_, t.binary(op, self.scalar(a, depth), self.scalar(b, depth)))
        if wide.kind == "uint":
            fits = [i for i in self.ints if i.bits <= wide.bits]
            one, two = self.scalar(type_, depth), self.scalar(self.pick(fits), depth)
            return t.binary(op, *((one, two) if self.chance(0.5) else (two, one)))
        u = unsigned(wide)
        return t.Cast(type_, t.binary(op, self.cast(u, self.scalar(type_, depth)), self.cast(u, self.natural(depth))))

    def int_bits(self, type_: Scalar, depth: int) -> t.Expr:
        op = self.pick(["&", "|", "^"])
        return self.cast(type_, t.binary(op, self.scalar(type_, depth), self.natural(depth)))

    def int_shift(self, type_: Scalar, depth: int) -> t.Expr:
        wide = promote(type_)
        amount = t.binary("&", self.natural(depth), t.Lit(INT, wide.bits - 1))
        if self.chance(0.5):
            return self.cast(type_, t.binary(">>", self.scalar(type_, depth), amount))
        return self.cast(type_, t.binary("<<", self.cast(unsigned(wide), self.scalar(type_, depth)), amount))

    def int_divide(self, type_: Scalar, depth: int) -> t.Expr:
        op = self.pick(["/", "%"])
        divisor = self.scalar(type_, depth)
        if type_.kind == "uint":
            safe = t.binary("|", divisor, t.Lit(type_, 1))
        elif self.chance(0.5):
            safe = t.binary("+", t.binary("&", divisor, t.Lit(type_, 63)), t.Lit(type_, 1))
        else:  # even and not zero, of both signs
            safe = t.binary("|", t.binary("&", divisor, t.Lit(type_, -2)), t.Lit(type_, 2))
        return self.cast(type_, t.binary(op, self.scalar(type_, depth), safe))

    def int_unary(self, type_: Scalar, depth: int) -> t.Expr:
        if self.chance(0.5):
            return self.cast(type_, t.unary("~", self.scalar(type_, depth)))
        return self.cast(type_, t.unary("-", self.cast(unsigned(promote(type_)), self.scalar(type_, depth))))

    def int_library(self, type_: Scalar, depth: int) -> t.Expr:
        name = self.pick(
            ["min", "max", "clamp", "abs", "popcount", "clz", "ctz", "rotate", "mulhi", "addsat", "subsat"]
            + ["reverse_bits", "select"]
        )
        a = self.scalar(type_, depth)
        if name == "clamp":
            low = self.random.randint(type_.low, type_.high)
            high = self.random.randint(low, type_.high)
            return t.Library(type_, name, (a, t.Lit(type_, low), t.Lit(type_, high)))
        if name == "abs":
            return t.Library(type_, name, (self.cast(type_, t.binary("/", a, t.Lit(type_, 2))),))
        if name == "select":
            return t.Library(type_, name, (a, self.scalar(type_, depth), self.boolean(depth)))
        if name in ("popcount", "clz", "ctz", "reverse_bits"):
            return t.Library(type_, name, (a,))
        return t.Library(type_, name, (a, self.scalar(type_, depth)))

    def int_cast(self, type_: Scalar, depth: int) -> t.Expr:
        src = self.pick([*self.all_types, BOOL])
        return self.cast(type_, self.scalar(src, depth))

    def int_as_type(self, type_: Scalar, depth: int) -> t.Expr:
        """The same bytes, from a float, the other sign, or a vector."""
        if type_.bits in (16, 32) and self.chance(0.5):
            src = HALF if type_.bits == 16 else FLOAT
            if src in self.floats:
                return t.AsType(type_, self.calm(self.scalar(src, depth)))
        parts = {32: [(USHORT, 2), (UCHAR, 4), (SHORT, 2)], 64: [(UINT, 2), (INT, 2), (USHORT, 4)], 16: [(UCHAR, 2)]}
        if type_.bits in parts and self.chance(0.6):
            el, n = self.pick(parts[type_.bits])
            return t.AsType(type_, t.Construct(Vector(el, n), tuple(self.scalar(el, depth - 1) for _ in range(n))))
        twin = {CHAR: UCHAR, UCHAR: CHAR, SHORT: USHORT, USHORT: SHORT, INT: UINT, UINT: INT, LONG: ULONG, ULONG: LONG}
        return t.AsType(type_, self.scalar(twin[type_], depth))

    # ---- floats ----
    def real(self, type_: Scalar, depth: int) -> t.Expr:
        depth -= 1
        kind = self.weighted({"arith": 6, "mixed": 2, "library": 3, "cast": 2, "as_type": 0.7, "negative": 0.7})
        if kind == "arith":
            op = self.pick(["+", "-", "*", "/", "+", "-", "*"])
            return t.binary(op, self.scalar(type_, depth), self.scalar(type_, depth))
        if kind == "mixed":  # an operand that C++ converts
            others = [o for o in self.all_types if o == type_ or o.is_int or type_ == FLOAT]
            a, b = self.scalar(type_, depth), self.scalar(self.pick(others), depth)
            return t.binary(self.pick(["+", "-", "*"]), *((a, b) if self.chance(0.5) else (b, a)))
        if kind == "negative":
            return t.unary("-", self.scalar(type_, depth))
        if kind == "cast":
            return self.cast(type_, self.scalar(self.pick([*self.all_types, BOOL]), depth))
        if kind == "as_type":
            return t.AsType(type_, self.scalar(USHORT if type_ == HALF else UINT, depth))
        name = self.pick(["fma", "fma", "min", "max", "fabs", "floor", "ceil", "trunc", "rint", "select"])
        if name == "fma":
            return t.Library(type_, name, tuple(self.scalar(type_, depth) for _ in range(3)))
        if name in ("min", "max"):
            return t.Library(type_, name, (self.calm(self.scalar(type_, depth)), self.calm(self.scalar(type_, depth))))
        if name == "select":
            return t.Library(type_, name, (self.scalar(type_, depth), self.scalar(type_, depth), self.boolean(depth)))
        return t.Library(type_, name, (self.scalar(type_, depth),))
