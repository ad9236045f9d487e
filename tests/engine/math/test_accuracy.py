"""Safe mode over the whole float range: denormals, zeros, infinities and NaN included."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.math import samples
from tests.engine.math.launch import run
from tests.engine.math.reference import BINARY, EITHER_ZERO, UNARY, worst

FAMILIES = {
    "exponentials": ("exp", "exp2", "exp10"),
    "logarithms": ("log", "log2", "log10"),
    "circular": ("sin", "cos", "tan"),
    "of half turns": ("sinpi", "cospi", "tanpi"),
    "inverse circular": ("asin", "acos", "atan"),
    "hyperbolic": ("sinh", "cosh", "tanh"),
    "inverse hyperbolic": ("asinh", "acosh", "atanh"),
    "roots": ("sqrt", "rsqrt"),
    "rounding": ("ceil", "floor", "trunc", "rint", "round", "fract", "fabs"),
}


def test_every_function_is_in_a_family() -> None:
    assert sorted(UNARY) == sorted(name for family in FAMILIES.values() for name in family)


@pytest.mark.feature("math", "functions of one argument over all floats, safe mode")
@pytest.mark.parametrize("family", FAMILIES)
def test_one_argument(family: str) -> None:
    names = FAMILIES[family]
    x = samples.everywhere()
    rows = run([f"metal::{name}(x)" for name in names], [x])
    for name, got in zip(names, rows, strict=True):
        reference, bound = UNARY[name]
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
        error, where = worst(got, exact, (x,), either_zero=name in EITHER_ZERO)
        assert error <= bound, f"{name}: {error:.3f} ulp at {where}"


@pytest.mark.feature("math", "pow, powr, atan2, fmod, divide, fdim, fmax, fmin, copysign")
@pytest.mark.parametrize("powers", (True, False))
def test_two_arguments(powers: bool) -> None:
    names = [name for name in BINARY if name.startswith("pow") == powers]
    rng = np.random.default_rng(2026)
    x, y = samples.powers(rng, 200_000) if powers else samples.pairs(rng, 200_000)
    rows = run([f"metal::{name}(x, y)" for name in names], [x, y])
    # A float64 power is not exact enough for a large exponent.
    wide = np.longdouble if powers else np.float64
    for name, got in zip(names, rows, strict=True):
        reference, bound = BINARY[name]
        with np.errstate(all="ignore"):
            exact = reference(x.astype(wide), y.astype(wide))
        # fmax and fmin of two zeros may give either.
        error, where = worst(got, exact, (x, y), either_zero=name in ("fmax", "fmin"))
        assert error <= bound, f"{name}: {error:.3f} ulp at {where}"


@pytest.mark.feature("math", "sine and cosine never leave [-1, 1]")
def test_sine_and_cosine_stay_within_one() -> None:
    x = samples.everywhere()
    rows = run(["sin(x)", "cos(x)", "sinpi(x)", "cospi(x)"], [x])
    assert np.nanmax(np.abs(rows)) == 1.0
