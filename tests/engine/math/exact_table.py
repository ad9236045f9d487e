"""What every processor must give, bit for bit, where processors differ: ends of ranges, NaN, shifts, denormals.

Of a result that is NaN it says no more: its sign and payload are the processor's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tests.engine.math.exact import FORMATS, INTEGERS, Exact, limits, size_of, to_integer, wrapped

Operands = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """One MSL expression of x, y and z, the operands' bits, and the result's."""

    expression: str
    kinds: tuple[str, ...]  # types of x, y and z
    result: str
    cases: dict[Operands, int]
    is_exact: bool = True  # also where the compiler may use reciprocals and approximate functions

    def without_specials(self) -> Rows:
        """The cases with neither NaN nor infinity in them, which fast mode promises nothing about."""
        kinds = (*self.kinds, self.result)
        kept = {
            operands: want
            for operands, want in self.cases.items()
            if all(
                kind not in FORMATS or bits & ~FORMATS[kind].sign < FORMATS[kind].infinity
                for kind, bits in zip(kinds, (*operands, want), strict=True)
            )
        }
        return replace(self, cases=kept)


def around(*values: float | int | Fraction, kind: str) -> list[int]:
    """The bits of these values and of the numbers next to them, of both signs."""
    form, found = FORMATS[kind], []
    for value in values:
        middle = form.bits(Fraction(value))
        found += [bits for bits in (middle - 1, middle, middle + 1) if 0 <= bits < form.infinity]
    return sorted({*found, *(bits | form.sign for bits in found)})


def specials(kind: str) -> list[int]:
    """Infinities, quiet and signalling NaNs, of both signs."""
    form = FORMATS[kind]
    quiet = form.infinity + (1 << form.mantissa - 1)
    magnitudes = (form.infinity, quiet, quiet + 5, form.infinity + 1, form.infinity + (1 << form.mantissa - 2) + 1)
    return [bits | sign for bits in magnitudes for sign in (0, form.sign)]


ENDS = [0, 1, Fraction(1, 2), 127, 128, 255, 256, 32767, 32768, 65535, 65536]
ENDS += [Fraction(2) ** power for power in (24, 31, 32, 33, 63, 64, 100)]


def float_to_integer() -> Iterable[Rows]:
    for kind, form in FORMATS.items():
        operands = [*around(*ENDS, kind=kind), *specials(kind)]
        for to in INTEGERS:
            cases = {(bits,): to_integer(form.value(bits), to) for bits in operands}
            yield Rows(f"{to}(x)", (kind,), to, cases)
        yield Rows("bool(x)", (kind,), "bool", {(bits,): int(form.value(bits) != 0) for bits in operands})


def integer_to_float() -> Iterable[Rows]:
    powers = [1 << n for n in range(64)]
    some = [0, 2049, 2051, 65503, 65504, 65519, 65520, 65521, 257, 259, 16777217, 16777219, 0x8000008000000001]
    some += [p + d for p in powers[7::8] for d in (-1, 0, 1)] + [p + p // 256 + 1 for p in powers[10::9]]
    for kind in INTEGERS:
        low, high = limits(kind)
        numbers = sorted({n for m in (*some, low, high) for n in (m, -m) if low <= n <= high})
        for to, form in FORMATS.items():
            yield Rows(f"{to}(x)", (kind,), to, {(wrapped(n, kind),): form.bits(Fraction(n)) for n in numbers})


def float_to_float() -> Iterable[Rows]:
    # Halfway between two halves, or two bfloats, and beside it; where denormals and infinity begin.
    ties = [Fraction(n, 2**25) for n in (1, 2, 3, 5)] + [Fraction(2**11 - 1, 2**25), Fraction(2049, 2048)]
    ties += [65504, 65519, 65520, Fraction(257, 256), Fraction(259, 256), Fraction(2) ** -126, Fraction(2) ** -133]
    ties += [Fraction(3) * Fraction(2) ** -134, Fraction(2) ** -149, (2 - Fraction(1, 256)) * Fraction(2) ** 127, 1, 0]
    for kind, form in FORMATS.items():
        operands = [*around(*ties, kind=kind), *specials(kind)]
        for to, other in FORMATS.items():
            if to != kind:
                cases = {(bits,): _with_sign(other.bits(form.value(bits)), bits, kind, to) for bits in operands}
                yield Rows(f"{to}(x)", (kind,), to, cases)


def _with_sign(found: int, operand: int, kind: str, to: str) -> int:
    """Of a zero the operand's sign."""
    return FORMATS[to].sign if found == 0 and operand & FORMATS[kind].sign else found


def integers() -> Iterable[Rows]:
    counts = [0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 1 << 31, (1 << 32) - 1]
    for kind in INTEGERS:
        low, high = limits(kind)
        size = max(size_of(kind), 32)
        wide = kind if size_of(kind) >= 32 else "int"  # what a narrow operand becomes
        numbers = [low, high, 1, high // 3, low // 3]
        left = {(wrapped(n, kind), c): wrapped(n << c % size, wide) for n in numbers for c in counts}
        right = {(wrapped(n, kind), c): wrapped(n >> c % size, wide) for n in numbers for c in counts}
        yield Rows("x << y", (kind, "uint"), wide, left)
        yield Rows("x >> y", (kind, "uint"), wide, right)
        pairs = [(a, b) for a in numbers for b in (0, 1, -1, 2, low, high) if low <= b <= high]
        bits = {(a, b): (wrapped(a, kind), wrapped(b, kind)) for a, b in pairs}
        yield Rows("x / y", (kind, kind), wide, {bits[a, b]: wrapped(_quotient(a, b), wide) for a, b in pairs})
        rest = {bits[a, b]: wrapped(a - b * _quotient(a, b) if b else a, wide) for a, b in pairs}
        yield Rows("x % y", (kind, kind), wide, rest)
        own = size_of(kind)
        all_bits = {wrapped(n, kind) for n in (0, 1, low, high, -1)}
        yield Rows("clz(x)", (kind,), kind, {(b,): own - b.bit_length() for b in all_bits})
        yield Rows("ctz(x)", (kind,), kind, {(b,): (b & -b).bit_length() - 1 if b else own for b in all_bits})


def _quotient(a: int, b: int) -> int:
    """As the engine defines it: by 0 it is 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def extremes() -> Iterable[Rows]:
    """The number, where one of two is NaN: a signalling one too."""
    for kind, form in FORMATS.items():
        one, two, least = form.bits(Fraction(1)), form.bits(Fraction(2)), 1
        numbers = [one, two, one | form.sign, least, least | form.sign, form.infinity, form.infinity | form.sign]
        left, right = [*numbers, *specials(kind)], [one, two | form.sign, form.infinity, *specials(kind)]
        pairs = [(a, b) for a in left for b in right]
        for name in ("max", "min"):
            cases = {pair: _extreme(name, pair, kind) for pair in pairs}
            yield Rows(f"{name}(x, y)", (kind, kind), kind, cases)
            yield Rows(f"f{name}(x, y)", (kind, kind), kind, cases)
            threes = {(a, b, two): _extreme(name, (a, b, two), kind) for a, b in pairs[::3]}
            yield Rows(f"f{name}3(x, y, z)", (kind, kind, kind), kind, threes)
        low, high = form.bits(Fraction(-1)), two
        clamped = {(a, low, high): _clamped(a, low, high, kind) for a in left}
        yield Rows("clamp(x, y, z)", (kind, kind, kind), kind, clamped)
        saturated = {(a,): _clamped(a, 0, one, kind) for a in left if a != form.sign}
        yield Rows("saturate(x)", (kind,), kind, saturated)


def _extreme(name: str, given: Sequence[int], kind: str) -> int:
    form = FORMATS[kind]
    numbers = [bits for bits in given if not form.is_nan(bits)]
    return (max if name == "max" else min)(numbers, key=form.value) if numbers else given[0]


def _clamped(bits: int, low: int, high: int, kind: str) -> int:
    return _extreme("min", (_extreme("max", (bits, low), kind), high), kind)


_TESTS: dict[str, Callable[[Exact, Exact], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def comparisons() -> Iterable[Rows]:
    for kind, form in FORMATS.items():
        numbers = [0, form.sign, 1, 1 | form.sign, form.bits(Fraction(1)), *specials(kind)]
        pairs = [(a, b) for a in numbers for b in numbers[:8]]
        for sign, test in _TESTS.items():
            cases = {(a, b): int(test(form.value(a), form.value(b))) for a, b in pairs}
            yield Rows(f"x {sign} y", (kind, kind), "bool", cases)
            yield Rows(f"!(x {sign} y)", (kind, kind), "bool", {pair: 1 - want for pair, want in cases.items()})
        smallest = 1 << form.mantissa
        numbers += [smallest, smallest - 1, (smallest - 1) | form.sign]
        size = {bits: bits & ~form.sign for bits in numbers}
        yield Rows("isnan(x)", (kind,), "bool", {(b,): int(size[b] > form.infinity) for b in numbers})
        yield Rows("isinf(x)", (kind,), "bool", {(b,): int(size[b] == form.infinity) for b in numbers})
        yield Rows("isfinite(x)", (kind,), "bool", {(b,): int(size[b] < form.infinity) for b in numbers})
        yield Rows("isnormal(x)", (kind,), "bool", {(b,): int(smallest <= size[b] < form.infinity) for b in numbers})
        yield Rows("signbit(x)", (kind,), "bool", {(b,): int(b != size[b]) for b in numbers})
        # No arithmetic: a NaN keeps its bits.
        word = "uint" if kind == "float" else "ushort"
        yield Rows(f"as_type<{word}>(fabs(x))", (kind,), word, {(b,): size[b] for b in numbers})
        yield Rows(f"as_type<{word}>(-x)", (kind,), word, {(b,): b ^ form.sign for b in numbers})
        signs = {(b, c): size[b] | c & form.sign for b in numbers for c in numbers[:4]}
        yield Rows(f"as_type<{word}>(copysign(x, y))", (kind, kind), word, signs)
        picked = {(b, c): b if b & 1 else c for b in numbers for c in numbers[:4]}
        yield Rows(f"as_type<{word}>(as_type<{word}>(x) & 1 ? x : y)", (kind, kind), word, picked)


_BINARY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "x / y": operator.truediv,
}


def denormals() -> Iterable[Rows]:
    """They are kept, as operands and as results."""
    for kind, form in FORMATS.items():
        normal = 1 << form.mantissa
        small = [1, 2, 3, normal - 1, normal, normal + 1, normal * 2 + 1]
        small += [bits | form.sign for bits in small[:4]]
        one = form.bits(Fraction(1))
        others = [1, normal, one, one + 1, form.bits(Fraction(1, 2)), form.bits(Fraction(-3, 4))]
        pairs = [(a, b) for a in small for b in others]
        for expression, apply in _BINARY.items():
            cases = {}
            for a, b in pairs:
                exact = apply(_fraction(a, kind), _fraction(b, kind))
                if exact:
                    cases[a, b] = form.bits(exact)
            yield Rows(expression, (kind, kind), kind, cases, is_exact=expression != "x / y")
        threes = [(a, b, c) for a, b in pairs[::2] for c in (1, normal + 1, 3 | form.sign)]
        fused = {t: _fraction(t[0], kind) * _fraction(t[1], kind) + _fraction(t[2], kind) for t in threes}
        cases3 = {t: form.bits(exact) for t, exact in fused.items() if exact}
        yield Rows("fma(x, y, z)", (kind, kind, kind), kind, cases3)
        positive = [bits for bits in small if not bits & form.sign]
        yield Rows("x > 0", (kind,), "bool", {(b,): int(not b & form.sign) for b in small})
        yield Rows("ceil(x)", (kind,), kind, {(b,): one for b in positive})
        yield Rows("floor(x)", (kind,), kind, {(b | form.sign,): one | form.sign for b in positive})
        yield Rows("sqrt(x)", (kind,), kind, {(b,): _root(b, kind) for b in positive}, is_exact=False)


def _fraction(bits: int, kind: str) -> Fraction:
    value = FORMATS[kind].value(bits)
    assert isinstance(value, Fraction)
    return value


def _root(bits: int, kind: str) -> int:
    """Rounded once: from the root's first 2^-200, which is never halfway between two numbers."""
    value = _fraction(bits, kind) * 4**200
    return FORMATS[kind].bits(Fraction(2 * math.isqrt(math.floor(value)) + 1, 2 * 2**200))


TABLE: dict[str, tuple[Rows, ...]] = {
    "conversions of floats to integers": tuple(float_to_integer()),
    "conversions of integers to floats": tuple(integer_to_float()),
    "conversions between half, bfloat and float": tuple(float_to_float()),
    "shifts, divisions and counts of bits": tuple(integers()),
    "smaller and larger ones": tuple(extremes()),
    "comparisons, classes and signs": tuple(comparisons()),
    "denormals": tuple(denormals()),
}
