"""Math modes: what metal:: means in each, that precise:: does not change, and when a * b + c is fused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.math import samples
from tests.engine.math.launch import run
from tests.engine.math.reference import UNARY, ulp_error

GRADED = ["exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "tanh"]
# fast:: where its documentation promises something: the range, and the largest error in ulp there.
FAST = {
    "exp": (-86, 88, 20.0),
    "exp2": (-125, 127.9, 2.5),
    "exp10": (-37, 38, 32.0),
    "log": (1e-37, 1e38, 1.0),
    "log2": (1e-37, 1e38, 1.0),
    "log10": (1e-37, 1e38, 1.0),
    "tanh": (-20, 20, 3.0),
}


def bits(a: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(a), np.uint32(0x7FC00000), a.view(np.uint32))


@pytest.mark.feature("math", "precise:: gives the same bits in every math mode")
def test_precise_is_the_same_in_every_mode() -> None:
    # Finite arguments: fast mode leaves infinities and NaN open.
    x = samples.stride(40_009)
    x = np.abs(x[np.isfinite(x)])
    x = x[(x > 1e-30) & (x < 80)]
    calls = [f"precise::{name}(x)" for name in GRADED] + [
        "precise::pow(x, 1.5f)",
        "precise::atan(x)",
        "precise::sinh(x)",
    ]
    safe, relaxed, fast = (run(calls, [x], math_mode=mode) for mode in ("safe", "relaxed", "fast"))
    for row, call in enumerate(calls):
        assert np.array_equal(bits(safe[row]), bits(relaxed[row])), f"{call} in relaxed mode"
        assert np.array_equal(bits(safe[row]), bits(fast[row])), f"{call} in fast mode"


@pytest.mark.feature("math", "metal:: is precise:: in safe mode and fast:: in fast mode")
def test_what_the_plain_name_means() -> None:
    x = np.linspace(0.01, 20, 20_000).astype(np.float32)
    for mode, namespace in (("safe", "precise"), ("fast", "fast")):
        rows = run(
            [f"{name}(x)" for name in GRADED] + [f"{namespace}::{name}(x)" for name in GRADED], [x], math_mode=mode
        )
        for i, name in enumerate(GRADED):
            assert np.array_equal(rows[i], rows[i + len(GRADED)]), f"{name} in {mode} mode"


@pytest.mark.feature("math", "fast:: within its documented range")
def test_fast_accuracy() -> None:
    everything = samples.everywhere()
    rows = run([f"fast::{name}(x)" for name in FAST], [everything])
    for row, (name, (low, high, bound)) in zip(rows, FAST.items(), strict=True):
        inside = (everything >= low) & (everything <= high)
        x = everything[inside]
        error = ulp_error(row[inside], UNARY[name][0](x.astype(np.float64)))
        assert error.max() <= bound, f"fast::{name}: {error.max():.2f} ulp at {x[error.argmax()]!r}"


@pytest.mark.feature("math", "fast::sin, cos, tan")
def test_fast_circular() -> None:
    x = np.linspace(-100_000, 100_000, 400_001).astype(np.float32)
    sin, cos = run(["fast::sin(x)", "fast::cos(x)"], [x])
    wide = x.astype(np.float64)
    assert np.abs(sin - np.sin(wide)).max() < 3e-7 and np.abs(cos - np.cos(wide)).max() < 3e-7
    small = x[np.abs(x) < 1.5]
    (tan,) = run(["fast::tan(x)"], [small])
    np.testing.assert_allclose(tan, np.tan(small.astype(np.float64)), rtol=5e-7)
    # Arguments that no reduction can serve stay bounded.
    huge = np.array([1e10, 1e20, -3e38], np.float32)
    assert np.abs(run(["fast::sin(x)", "fast::cos(x)"], [huge])).max() < 1.001


@pytest.mark.feature("math", "safe mode fuses a * b + c within one expression, and only there")
def test_contraction() -> None:
    rng = np.random.default_rng(13)
    x, y, z = (rng.normal(size=50_000).astype(np.float32) for _ in range(3))
    apart = "[&] { float p = x * y; return p + z; }()"
    off = '[&] { _Pragma("clang fp contract(off)") return x * y + z; }()'
    calls = ["x * y + z", "fma(x, y, z)", apart, off]
    one, fused, two, without = run(calls, [x, y, z])
    exact = (x.astype(np.longdouble) * y + z).astype(np.float32)
    rounded = x * y + z
    assert np.array_equal(fused, exact) and np.array_equal(one, exact)
    assert np.array_equal(two, rounded) and np.array_equal(without, rounded)
    assert not np.array_equal(exact, rounded)
    # Of two products the right one is rounded, the left one fused.
    (both,) = run(["x * y + z * x"], [x, y, z])
    assert np.array_equal(both, (x.astype(np.longdouble) * y + z * x).astype(np.float32))
    for mode in ("relaxed", "fast"):
        assert np.array_equal(run([apart], [x, y, z], math_mode=mode)[0], exact), mode
