"""Evaluates expressions for the active lanes of one simdgroup: one Python value per lane, nothing is vectorised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.stress import arith, simd
from tests.stress import tree as t
from tests.stress.arith import Undefined
from tests.stress.library import SCALAR
from tests.stress.memory import Memory, Thread
from tests.stress.types import BOOL, SHIFTS, Array, Pointer, Scalar, Struct, Type, Vector, common, promote

Lanes = list[int]
Values = list[Any]
WIDTH = 32
LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


@dataclass
class Frame:
    """The variables of one call, each with a value per lane, and who left how."""

    variables: dict[str, Values]
    returned: Values = field(default_factory=lambda: [None] * WIDTH)
    breaks: list[Lanes] = field(default_factory=list)  # a stack: the innermost loop or switch is last
    continues: list[Lanes] = field(default_factory=list)  # the same for loops


@dataclass
class Budget:
    """Ends a kernel that runs too long (the shrinker may have deleted the step of a loop)."""

    left: int

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Undefined("the kernel runs too long")


CallFunction = Callable[[t.Function, list[Values], Lanes], Values]


@dataclass
class Machine:
    """What all expressions of one simdgroup need."""

    functions: dict[str, t.Function]
    memory: dict[str, Memory]  # buffers, tables, threadgroup arrays
    threads: list[Thread]  # of each lane
    budget: Budget
    call: CallFunction


def convert(value: Any, src: Type, dst: Type) -> Any:
    if src == dst:
        return value
    if isinstance(dst, Vector):
        if isinstance(src, Vector):
            return tuple(arith.convert(v, src.element, dst.element) for v in value)
        assert isinstance(src, Scalar)
        return (arith.convert(value, src, dst.element),) * dst.size
    assert isinstance(src, Scalar) and isinstance(dst, Scalar), (src, dst)
    return arith.convert(value, src, dst)


def element(type_: Type) -> Scalar:
    assert isinstance(type_, (Scalar, Vector, Array)), type_
    return type_ if isinstance(type_, Scalar) else type_.element


def evaluate(m: Machine, frame: Frame, e: t.Expr, lanes: Lanes) -> Values:
    """The value of e in every active lane; other lanes hold None."""
    m.budget.spend(len(lanes))
    return EVALUATE[type(e)](m, frame, e, lanes)


def each(lanes: Lanes, of: Callable[[int], Any]) -> Values:
    out: Values = [None] * WIDTH
    for lane in lanes:
        out[lane] = of(lane)
    return out


def _lit(m: Machine, f: Frame, e: t.Lit, lanes: Lanes) -> Values:
    return [e.value] * WIDTH


def _var(m: Machine, f: Frame, e: t.Var, lanes: Lanes) -> Values:
    values = f.variables.get(e.name)
    if values is None:
        if e.name not in m.memory:
            raise Undefined(f"{e.name} is not declared")
        return [(m.memory[e.name], 0)] * WIDTH
    for lane in lanes:
        if values[lane] is None or values[lane] is simd.UNDEF:
            raise Undefined(f"{e.name} has no value in lane {lane}")
    return values


def _unary(m: Machine, f: Frame, e: t.Unary, lanes: Lanes) -> Values:
    a = evaluate(m, f, e.a, lanes)
    src = e.a.type
    if isinstance(src, Vector):
        t_ = src.element
        if e.op == "!":
            return each(lanes, lambda i: tuple(not v for v in a[i]))
        if t_.is_int and t_.bits < 32 and e.op == "-":
            return each(lanes, lambda i: tuple(arith.wrap(t_, -v) for v in a[i]))
        return each(lanes, lambda i: tuple(arith.unary(e.op, t_, v) for v in a[i]))
    assert isinstance(src, Scalar)
    dst = BOOL if e.op == "!" else promote(src)
    return each(lanes, lambda i: arith.unary(e.op, dst, arith.convert(a[i], src, dst)))


def _binary(m: Machine, f: Frame, e: t.Binary, lanes: Lanes) -> Values:
    if e.op in ("&&", "||"):
        return _logical(m, f, e, lanes)
    a = evaluate(m, f, e.a, lanes)
    b = evaluate(m, f, e.b, lanes)
    return binary_values(e.op, e.a.type, e.b.type, a, b, lanes)


def binary_values(op: str, ta: Type, tb: Type, a: Values, b: Values, lanes: Lanes) -> Values:
    """`a op b` with the conversions that C++ makes."""
    if isinstance(ta, Pointer):
        return each(lanes, lambda i: (a[i][0], a[i][1] + b[i]))
    if isinstance(ta, Vector) or isinstance(tb, Vector):
        vector = ta if isinstance(ta, Vector) else tb
        assert isinstance(vector, Vector)
        el = vector.element

        def one(i: int) -> Any:
            pairs = zip(convert(a[i], ta, vector), convert(b[i], tb, vector), strict=True)
            return tuple(arith.element_binary(op, el, x, y) for x, y in pairs)

        return each(lanes, one)
    assert isinstance(ta, Scalar) and isinstance(tb, Scalar)
    if op in SHIFTS:
        left = promote(ta)
        return each(lanes, lambda i: arith.shift(op, left, arith.convert(a[i], ta, left), int(b[i])))
    both = common(ta, tb)
    if ta is both and tb is both:
        return each(lanes, lambda i: arith.binary(op, both, a[i], b[i]))
    return each(lanes, lambda i: arith.binary(op, both, arith.convert(a[i], ta, both), arith.convert(b[i], tb, both)))


def _logical(m: Machine, f: Frame, e: t.Binary, lanes: Lanes) -> Values:
    a = evaluate(m, f, e.a, lanes)
    out = each(lanes, lambda i: bool(a[i]))
    more = [i for i in lanes if out[i] == (e.op == "&&")]
    if more:
        b = evaluate(m, f, e.b, more)
        for i in more:
            out[i] = bool(b[i])
    return out


def _ternary(m: Machine, f: Frame, e: t.Ternary, lanes: Lanes) -> Values:
    cond = evaluate(m, f, e.cond, lanes)
    out: Values = [None] * WIDTH
    for wanted, arm in ((True, e.a), (False, e.b)):
        mine = [i for i in lanes if bool(cond[i]) == wanted]
        if mine:
            values = evaluate(m, f, arm, mine)
            for i in mine:
                out[i] = convert(values[i], arm.type, e.type)
    return out


def _cast(m: Machine, f: Frame, e: t.Cast, lanes: Lanes) -> Values:
    a = evaluate(m, f, e.a, lanes)
    return each(lanes, lambda i: convert(a[i], e.a.type, e.type))


def _as_type(m: Machine, f: Frame, e: t.AsType, lanes: Lanes) -> Values:
    a = evaluate(m, f, e.a, lanes)
    src, dst = e.a.type, e.type

    def one(i: int) -> Any:
        parts = a[i] if isinstance(src, Vector) else (a[i],)
        el = element(src)
        if el.is_float and any(v != v for v in parts) and element(dst) != el and not element(dst).is_float:
            raise Undefined("the bits of a NaN")
        bits = sum(arith.to_bits(v, el) << (k * el.bits) for k, v in enumerate(parts))
        to = element(dst)
        if isinstance(dst, Vector):
            return tuple(arith.from_bits((bits >> (k * to.bits)) & (2**to.bits - 1), to) for k in range(dst.size))
        return arith.from_bits(bits, to)

    return each(lanes, one)


def _index(m: Machine, f: Frame, e: t.Index, lanes: Lanes) -> Values:
    base = evaluate(m, f, e.base, lanes)
    index = evaluate(m, f, e.index, lanes)

    def one(i: int) -> Any:
        if isinstance(base[i], list):
            if not 0 <= index[i] < len(base[i]):
                raise Undefined(f"private array index {index[i]}")
            return base[i][index[i]]
        memory, offset = base[i]
        return memory.load(offset + index[i], m.threads[i])

    return each(lanes, one)


def _member(m: Machine, f: Frame, e: t.Member, lanes: Lanes) -> Values:
    base = evaluate(m, f, e.base, lanes)
    assert isinstance(e.base.type, Struct)
    at = e.base.type.position(e.field)
    return each(lanes, lambda i: base[i][at])


def _swizzle(m: Machine, f: Frame, e: t.Swizzle, lanes: Lanes) -> Values:
    base = evaluate(m, f, e.base, lanes)
    at = [LETTERS[c] for c in e.names]
    if len(at) == 1:
        return each(lanes, lambda i: base[i][at[0]])
    return each(lanes, lambda i: tuple(base[i][k] for k in at))


def _construct(m: Machine, f: Frame, e: t.Construct, lanes: Lanes) -> Values:
    args = [evaluate(m, f, a, lanes) for a in e.args]
    if isinstance(e.type, Struct):
        types = [ft for _, ft in e.type.fields]
        pairs = list(zip(args, e.args, types, strict=True))
        return each(lanes, lambda i: tuple(convert(v[i], a.type, ft) for v, a, ft in pairs))
    if isinstance(e.type, Array):
        el = e.type.element
        return each(lanes, lambda i: [convert(v[i], a.type, el) for v, a in zip(args, e.args, strict=True)])
    vector = e.type
    assert isinstance(vector, Vector)

    def one(i: int) -> Any:
        parts: list[Any] = []
        for v, a in zip(args, e.args, strict=True):
            items = v[i] if isinstance(a.type, Vector) else (v[i],)
            parts += [arith.convert(x, element(a.type), vector.element) for x in items]
        return tuple(parts * vector.size if len(parts) == 1 else parts)

    return each(lanes, one)


def _call(m: Machine, f: Frame, e: t.Call, lanes: Lanes) -> Values:
    function = m.functions[e.function]
    args = []
    for a, (_, pt) in zip(e.args, function.parameters, strict=True):
        values = evaluate(m, f, a, lanes)
        args.append(each(lanes, lambda i, v=values, a=a, pt=pt: convert(v[i], a.type, pt)))  # type: ignore[misc]
    return m.call(function, args, lanes)


def _library(m: Machine, f: Frame, e: t.Library, lanes: Lanes) -> Values:
    if e.function.startswith(("simd_", "quad_")):
        return simd.call(e.function, e.type, lanes, [evaluate(m, f, a, lanes) for a in e.args])
    args = [evaluate(m, f, a, lanes) for a in e.args]
    if e.function in ("any", "all"):
        return each(lanes, lambda i: any(args[0][i]) if e.function == "any" else all(args[0][i]))
    if e.function == "atomic_load":
        return args[0]
    run = SCALAR[e.function]
    first = e.args[0].type
    if isinstance(first, Vector):
        el = first.element
        return each(lanes, lambda i: tuple(run(el, *parts) for parts in zip(*(v[i] for v in args), strict=True)))
    assert isinstance(first, Scalar)
    return each(lanes, lambda i: run(first, *(v[i] for v in args)))


EVALUATE: dict[type, Callable[..., Values]] = {
    t.Lit: _lit,
    t.Var: _var,
    t.Unary: _unary,
    t.Binary: _binary,
    t.Ternary: _ternary,
    t.Cast: _cast,
    t.AsType: _as_type,
    t.Index: _index,
    t.Member: _member,
    t.Swizzle: _swizzle,
    t.Construct: _construct,
    t.Call: _call,
    t.Library: _library,
}
