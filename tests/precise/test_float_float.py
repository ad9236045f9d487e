"""float_float.h: its error bounds, in exact rational arithmetic, and what fast math does to them."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.ops.precise.base.reduce import REDUCE
from metalcore.runtimes.kernel import FOLDER
from metalcore.runtimes.text import shader_text
from tests.precise.exact import SEED, UNIT, Array, cancelling, exact_dots

HEADER = (FOLDER / "float_float.h").read_text()
BARE = re.sub(r"#pragma METAL.*", "", HEADER)
U2 = Fraction(1, 1 << 48)  # u^2
KERNEL = """
kernel void apply(
    device const float2* a, device const float2* b, device const float2* c, device float2* out, device int* order,
    uint i [[thread_position_in_grid]]) {
  const FloatFloat x = {a[i].x, a[i].y}, y = {b[i].x, b[i].y}, z = {c[i].x, c[i].y};
  const FloatFloat found[10] = {x + y, x - y, x * y, x / y, sqrt(x.high < 0 ? -x : x),
                                x + y.high, x * y.high, x / y.high, fma(x, y, z), x - y.high};
  for (int k = 0; k < 10; k++) {
    out[i * 10 + k] = float2(found[k].high, found[k].low);
  }
  order[i] = (x < y) + 2 * (x > y) + 4 * (x == y) + 8 * (x <= y) + 16 * (x >= y) + 32 * (x != y);
}
kernel void convert(device const int* a, device float4* out, uint i [[thread_position_in_grid]]) {
  const FloatFloat x = from_int(a[i]), y = from_uint(uint(a[i]));
  out[i] = float4(x.high, x.low, y.high, y.low);
}
"""
# Multiples of u^2, in the order of `found` above; sqrt and fma are measured their own way.
BOUNDS = (3.01, 3.01, 4, 15.01, 25 / 8, 2, 2, 3.5, 7.01, 2)


def pairs(random: np.random.Generator, count: int) -> Array:
    """Normalised pairs: random ones, powers of two and their neighbours, low parts of half a step or none."""
    high = (
        random.uniform(1, 2, count) * np.ldexp(random.choice([-1, 1], count), random.integers(-12, 13, count))
    ).astype(np.float32)
    high[::7] = np.ldexp(np.float32(1), random.integers(-12, 13, len(high[::7])))
    high[3::7] = np.nextafter(high[3::7] * 0 + 2, np.float32(0))
    share = random.choice([0.5, -0.5, 0.25, 0.0, 2.0**-20, 0.49999], count)
    share = np.where(random.random(count) < 0.5, random.uniform(-0.5, 0.5, count), share)
    low = (np.spacing(np.abs(high)) * np.where(high % 2 == 0, share / 2, share)).astype(np.float32)
    wrong = high + low != high  # a half step to an odd neighbour is no normalised pair
    return np.stack([high, np.where(wrong, 0, low)], axis=1).astype(np.float32)


def exact(pair: Any) -> Fraction:
    return Fraction(float(pair[0])) + Fraction(float(pair[1]))


@cache
def worst(header: str, math_mode: str) -> tuple[float, ...]:
    """The largest error of each function, as a multiple of u^2."""
    library = metalcore.Library(header + KERNEL, math_mode=math_mode)
    random, count = np.random.default_rng(SEED), 600
    a, b, c = (pairs(random, count) for _ in range(3))
    b[:150] = -a[:150]  # sums that cancel, wholly or to their last bits
    b[50:150] += np.spacing(b[50:150]) * random.integers(-2, 3, (100, 2)).astype(np.float32)
    b[50:150, 1] = np.where(b[50:150, 0] + b[50:150, 1] == b[50:150, 0], b[50:150, 1], 0)
    found, order = np.zeros((count, 10, 2), np.float32), np.zeros(count, np.int32)
    library.function("apply")(a, b, c, found, order, threads=(count, 1, 1), group_size=(32, 1, 1))
    errors: list[list[Fraction]] = [[] for _ in range(10)]
    for i in range(count):
        x, y, z, head = exact(a[i]), exact(b[i]), exact(c[i]), Fraction(float(b[i, 0]))
        truths = [x + y, x - y, x * y, x / y, abs(x), x + head, x * head, x / head, x * y + z, x - head]
        for k, truth in enumerate(truths):
            value, scale = exact(found[i, k]), abs(truth)
            if k == 4:
                value, scale = value * value, 2 * truth  # the root's relative error is half of its square's
            if k == 8:
                scale = max(abs(x * y), abs(truth))
            errors[k].append(abs(value - truth) / scale if scale else Fraction(int(value != truth)))
        expected = (x < y) + 2 * (x > y) + 4 * (x == y) + 8 * (x <= y) + 16 * (x >= y) + 32 * (x != y)
        assert order[i] == expected
    return tuple(float(max(e) / U2) for e in errors)


def test_error_bounds() -> None:
    found = worst(HEADER, "safe")
    assert all(error <= bound for error, bound in zip(found, BOUNDS, strict=True)), found
    assert all(error > 0.4 for error in found), found  # the inputs are hard enough to tell


def test_the_pragma_keeps_fast_math_out() -> None:
    found = worst(HEADER, "fast")
    assert all(error <= bound for error, bound in zip(found, BOUNDS, strict=True)), found


def test_fast_math_breaks_every_bound() -> None:
    found = worst(BARE, "fast")
    assert all(error > 1e6 * bound for error, bound in zip(found, BOUNDS, strict=True)), found


def test_integers_are_exact() -> None:
    random = np.random.default_rng(SEED)
    given = np.array([0, 1, -1, 2**31 - 1, -(2**31), 16777217, *random.integers(-(2**31), 2**31, 58)], np.int32)
    out = np.zeros((64, 4), np.float32)
    run = metalcore.Library(HEADER + KERNEL).function("convert")
    run(given, out, threads=(64, 1, 1), group_size=(32, 1, 1))
    assert [exact(row[:2]) for row in out] == given.tolist()
    assert [exact(row[2:]) for row in out] == given.astype(np.uint32).tolist()
    assert (out[:, 0] + out[:, 1] == out[:, 0]).all()


@pytest.mark.parametrize("is_safe", [True, False])
def test_what_fast_math_does_to_a_dot_product(is_safe: bool) -> None:
    """The kernel of precise.dot, as torch.mps.compile_shader gets it, compiled with fast math."""
    x, y = cancelling(np.random.default_rng(SEED), 1, 999, 20)
    variant = REDUCE.variant(("float32",), (False, False, True, False, False, False, False))
    text = shader_text(variant)
    assert "#pragma METAL fp math_mode(safe)" in text
    library = metalcore.Library(text if is_safe else re.sub(r"#pragma METAL.*", "", text), math_mode="fast")
    high, low, nothing = np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32)
    numbers = (1, 999, 999, 1, 1, 1, 999, 999)
    run = library.function(variant.entry_point)
    run(x, y, nothing, high, low, *numbers, x, x, threads=(32, 1, 1), group_size=(32, 1, 1))
    (truth,), (size,) = exact_dots(x, y), exact_dots(np.abs(x), np.abs(y))
    found = exact((high[0], low[0])) * (1 << (2 * UNIT))
    error = abs(found - truth) / size
    assert (error < 999 * Fraction(1, 1 << 46)) == is_safe
