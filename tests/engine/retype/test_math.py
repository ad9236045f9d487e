"""Metal's math where float is read as double: right to 1e-14, most of it to an ulp or two."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.retype.helpers import Array, close, evaluate

RNG = np.random.default_rng(20)


def spread(low: float, high: float, count: int = 64) -> Array:
    """Both signs, all sizes between 2^low and 2^high."""
    return np.exp2(RNG.uniform(low, high, count)) * RNG.choice([-1.0, 1.0], count)


FUNCTIONS = ["exp", "exp2", "tanh", "sin", "cos", "log", "log2", "rsqrt", "sqrt", "fast::exp"]
REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "log": np.log,
    "log2": np.log2,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}


@pytest.mark.feature("math", "float read as double: functions are right to 1e-14")
def test_functions_of_kernels() -> None:
    special = [math.inf, -math.inf, math.nan, 0.0, -0.0, 750.0, -750.0, 1e308, 5e-324, 2.0**70, 1.0, -1.0]
    x = np.concatenate([spread(-30, 9.3), special])
    got = evaluate([f"{name}(a)" for name in FUNCTIONS], x)
    with np.errstate(all="ignore"):
        for name, row in zip(FUNCTIONS, got, strict=True):
            wanted = REFERENCE[name.split("::")[-1]](x)
            np.testing.assert_allclose(row, wanted, rtol=1e-14, atol=0, err_msg=name)
            zero = wanted == 0
            assert np.array_equal(np.signbit(row[zero]), np.signbit(wanted[zero])), name


def test_pow_keeps_its_digits_for_large_exponents() -> None:
    x, y = np.abs(spread(-3, 3)), RNG.uniform(-300, 300, 64)
    x[:4], y[:4] = [-2.0, -8.0, 0.0, 10.0], [3.0, 1 / 3, 2.0, 300.0]
    got = evaluate(["pow(a, b)", "powr(fabs(a), b)"], x, y)
    wanted = np.array([math.nan if i == 1 else math.pow(u, v) for i, (u, v) in enumerate(zip(x, y, strict=True))])
    close(got[0], wanted)
    close(got[1], np.abs(x) ** y)


def test_inverse_and_hyperbolic_functions() -> None:
    x, y = spread(-30, 9), spread(-30, 9)
    got = evaluate(["atan2(a, b)", "sinh(a)", "asinh(a)", "log10(fabs(a))"], x, y)
    for row, wanted in zip(got, (np.arctan2(x, y), np.sinh(x), np.arcsinh(x), np.log10(np.abs(x))), strict=True):
        close(row, wanted)


def test_rounding_ordering_and_splitting() -> None:
    x, y = spread(-20, 70), spread(-20, 20)
    x[:6] = [0.5, 1.5, -2.5, 0.49999999999999994, 2.0**52 + 1, -0.3]
    got = evaluate(
        [
            "floor(a)",
            "ceil(a)",
            "trunc(a)",
            "rint(a)",
            "round(a)",
            "fmod(a, b)",
            "fma(a, b, -a)",
            "fabs(a)",
            "min(a, b)",
        ]
        + ["max(a, b)", "fmin(a, NAN)", "clamp(a, -1.0f, 1.0f)", "mix(a, b, 0.3)", "copysign(a, b)", "abs(a) * sign(a)"]
        + ["ldexp(a, 3)", "frexp(a, e) + ldexp(0.0f, e)", "float(ilogb(a))", "nextafter(a, b)", "select(a, b, b > 0)"],
        x,
        y,
        setup="int e;",
    )
    wanted = [
        *(np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.trunc(x + np.copysign(np.nextafter(0.5, 0), x))),
        *(np.fmod(x, y), None, np.abs(x), np.minimum(x, y), np.maximum(x, y), x, np.clip(x, -1, 1)),
        *(None, np.copysign(x, y), x, x * 8, np.frexp(x)[0], np.frexp(x)[1] - 1.0, np.nextafter(x, y)),
        np.where(y > 0, y, x),
    ]
    for row, value in zip(got, wanted, strict=True):
        if value is not None:
            np.testing.assert_array_equal(row, value)
    exact = [float(fused(u, v)) for u, v in zip(x, y, strict=True)]
    np.testing.assert_array_equal(got[6], exact)
    close(got[12], x + (y - x) * 0.3, 1e-12)


def fused(u: float, v: float) -> object:
    from fractions import Fraction

    return Fraction(u) * Fraction(v) - Fraction(u)
