"""What the functions give at the edges, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.math import samples
from tests.engine.math.launch import run

INF, NAN = float("inf"), float("nan")
TINY, HUGE = 1e-45, 3.4028235e38

ONE_ARGUMENT = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (88.72284, INF), (-104, 0), (TINY, 1), (HUGE, INF)],
    "exp2": [(0, 1), (10, 1024), (-149, TINY), (-151, 0), (128, INF), (127, 2.0**127), (-INF, 0), (NAN, NAN)],
    "exp10": [(0, 1), (1, 10), (2, 100), (39, INF), (-INF, 0), (INF, INF), (NAN, NAN)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (-TINY, NAN)],
    "log2": [(1, 0), (8, 3), (TINY, -149), (2.0**-126, -126), (0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "log10": [(1, 0), (10, 1), (1000, 3), (0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "sin": [(0, 0), (-0.0, -0.0), (TINY, TINY), (-TINY, -TINY), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (TINY, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0, 0), (-0.0, -0.0), (TINY, TINY), (INF, NAN), (NAN, NAN)],
    "sinpi": [(0, 0), (-0.0, -0.0), (0.5, 1), (-0.5, -1), (1, 0), (-1, -0.0), (2.5, 1), (1e20, 0), (INF, NAN)],
    "cospi": [(0, 1), (0.5, 0), (-0.5, 0), (1, -1), (-1, -1), (2, 1), (16777217.0, 1), (INF, NAN), (NAN, NAN)],
    "tanpi": [(0, 0), (-0.0, -0.0), (0.25, 1), (-0.25, -1), (0.5, INF), (-0.5, -INF), (1.5, -INF), (INF, NAN)],
    "asin": [(0, 0), (-0.0, -0.0), (1, np.pi / 2), (-1, -np.pi / 2), (1.0000001, NAN), (-2, NAN), (NAN, NAN)],
    "acos": [(1, 0), (-1, np.pi), (0, np.pi / 2), (1.0000001, NAN), (-INF, NAN), (NAN, NAN)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (1, np.pi / 4), (TINY, TINY), (NAN, NAN)],
    "sinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (TINY, TINY), (90, INF), (NAN, NAN)],
    "cosh": [(0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (90, INF), (NAN, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (45, 1), (-1e30, -1), (TINY, TINY), (NAN, NAN)],
    "asinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (TINY, TINY), (NAN, NAN)],
    "acosh": [(1, 0), (0.99999994, NAN), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.0000001, NAN), (TINY, TINY), (NAN, NAN)],
    "sqrt": [(4, 2), (0, 0), (-0.0, -0.0), (-1, NAN), (INF, INF), (TINY, 3.743392e-23), (NAN, NAN)],
    "rsqrt": [(4, 0.5), (0, INF), (-0.0, -INF), (-1, NAN), (INF, 0), (NAN, NAN)],
    "rint": [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-1.5, -2), (8388609.0, 8388609.0), (INF, INF), (NAN, NAN)],
    "round": [(0.5, 1), (2.5, 3), (-0.5, -1), (0.49999997, 0), (-2.5, -3), (8388609.0, 8388609.0), (INF, INF)],
    "trunc": [(1.9, 1), (-1.9, -1), (-0.5, -0.0), (INF, INF), (NAN, NAN)],
    "ceil": [(0.1, 1), (-0.5, -0.0), (TINY, 1), (INF, INF)],
    "floor": [(0.9, 0), (-TINY, -1), (-0.0, -0.0), (-INF, -INF)],
    "fract": [(1.25, 0.25), (-0.25, 0.75), (-TINY, 0.99999994), (3, 0)],
    "fabs": [(-0.0, 0), (-INF, INF), (-1.5, 1.5)],
}
TWO_ARGUMENTS = {
    "pow": [
        *[(0, 0, 1), (NAN, 0, 1), (1, NAN, 1), (INF, 0, 1), (-1, INF, 1), (-1, -INF, 1), (2, 0.5, np.sqrt(2.0))],
        *[(-8, 3, -512), (-2, -1, -0.5), (-2, 0.5, NAN), (0, -1, INF), (-0.0, -1, -INF), (-0.0, 3, -0.0), (-0.0, 2, 0)],
        *[(0.5, INF, 0), (2, INF, INF), (0.5, -INF, INF), (-INF, 3, -INF), (-INF, 0.5, INF), (-INF, -3, -0.0)],
        *[(NAN, 1, NAN), (2, NAN, NAN), (2, 128, INF), (2, -150, 0), (2, -149, TINY), (-2, 16777216.0, INF)],
    ],
    "powr": [(0, 0, NAN), (INF, 0, NAN), (1, INF, NAN), (-1, 2, NAN), (0, 2, 0), (0, -2, INF), (2, 3, 8), (2, 0, 1)],
    "atan2": [
        *[
            (0, 1, 0),
            (-0.0, 1, -0.0),
            (0, -1, np.pi),
            (-0.0, -1, -np.pi),
            (0, 0, 0),
            (0, -0.0, np.pi),
            (1, 0, np.pi / 2),
        ],
        *[(INF, INF, np.pi / 4), (INF, -INF, 3 * np.pi / 4), (-INF, INF, -np.pi / 4), (1, INF, 0), (1, -INF, np.pi)],
        *[(NAN, 1, NAN), (1, NAN, NAN), (-1, 0, -np.pi / 2)],
    ],
    "fmod": [
        (5, 3, 2),
        (-5, 3, -2),
        (5, -3, 2),
        (1, 0, NAN),
        (INF, 2, NAN),
        (2, INF, 2),
        (2.0**100, 3, 1),
        (-0.0, 1, -0.0),
    ],
    "fdim": [(3, 1, 2), (1, 3, 0), (NAN, 1, NAN), (1, NAN, NAN)],
    "fmax": [(NAN, 1, 1), (1, NAN, 1), (NAN, NAN, NAN), (-INF, INF, INF), (2, 3, 3)],
    "fmin": [(NAN, 1, 1), (1, NAN, 1), (NAN, NAN, NAN), (-INF, INF, -INF), (2, 3, 2)],
    "copysign": [(1, -0.0, -1), (-2, 3, 2), (0, -1, -0.0), (INF, -1, -INF)],
    "nextafter": [(1, 2, 1.0000001), (1, 0, 0.99999994), (0, 1, TINY), (0, -1, -TINY), (HUGE, INF, INF), (NAN, 1, NAN)],
    "divide": [(1, 0, INF), (-1, 0, -INF), (0, 0, NAN), (1, 3, 1 / 3)],
}


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal bits; any NaN equals any NaN."""
    return (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))


@pytest.mark.feature("math", "special values of functions of one argument")
def test_one_argument() -> None:
    names = list(ONE_ARGUMENT)
    for group in (names[:8], names[8:15], names[15:22], names[22:]):
        x = np.array([v for name in group for v, _ in ONE_ARGUMENT[name]], np.float32)
        rows = run([f"precise::{name}(x)" for name in group], [x])
        at = 0
        for name, row in zip(group, rows, strict=True):
            cases = ONE_ARGUMENT[name]
            want = np.array([w for _, w in cases], np.float32)
            got = row[at : at + len(cases)]
            bad = np.flatnonzero(~same(got, want))
            assert bad.size == 0, f"{name}({cases[bad[0]][0]}) = {got[bad[0]]}, not {want[bad[0]]}"
            at += len(cases)


@pytest.mark.feature("math", "special values of functions of two arguments")
def test_two_arguments() -> None:
    names = list(TWO_ARGUMENTS)
    cases = [(row, *case) for row, name in enumerate(names) for case in TWO_ARGUMENTS[name]]
    x, y, want = (np.array(column, np.float32) for column in list(zip(*cases, strict=True))[1:])
    rows = run([f"precise::{name}(x, y)" for name in names], [x, y])
    got = np.array([rows[case[0], i] for i, case in enumerate(cases)], np.float32)
    bad = [
        f"{names[c[0]]}({c[1]}, {c[2]}) = {got[i]}, not {want[i]}"
        for i, c in enumerate(cases)
        if not same(got, want)[i]
    ]
    assert not bad, bad


@pytest.mark.feature("math", "nextafter")
def test_nextafter_of_any_pair() -> None:
    x, y = samples.pairs(np.random.default_rng(5), 100_000)
    (got,) = run(["nextafter(x, y)"], [x, y])
    with np.errstate(all="ignore"):
        want = np.nextafter(x, y)
    assert same(got, want).all()


@pytest.mark.feature("math", "frexp, ilogb, ldexp, modf")
def test_taking_apart_and_putting_together() -> None:
    x = np.concatenate([samples.SPECIAL, samples.stride(100_003)])
    calls = ["[&] { int e; return frexp(x, e); }()", "[&] { int e; frexp(x, e); return float(e); }()"]
    calls += ["float(ilogb(x))", "[&] { float w; return modf(x, w); }()", "[&] { float w; modf(x, w); return w; }()"]
    calls += ["ldexp(x, 30)", "ldexp(x, -200)", "ldexp(x, 1000000)", "ldexp(x, -40)"]
    got = run(calls, [x])
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(x)
        fraction, whole = np.modf(x)
        finite = np.isfinite(x) & (x != 0)
        scaled = [np.ldexp(x, k) for k in (30, -200, 1000000, -40)]
    assert same(got[0], mantissa).all()
    assert (got[1] == exponent)[np.isfinite(x)].all()
    assert (got[2] == exponent - 1)[finite].all()
    assert (got[2][x == 0] == np.float32(-(2.0**31))).all() and (got[2][~np.isfinite(x)] == np.float32(2.0**31)).all()
    assert same(got[3], fraction).all() and same(got[4], whole).all()
    for row, want in zip(got[5:], scaled, strict=True):
        assert same(row, want).all()


@pytest.mark.feature("math", "fma, fmax3, fmin3, fmedian3, sincos")
def test_three_arguments_and_sincos() -> None:
    rng = np.random.default_rng(7)
    x, y, z = (rng.normal(size=10_000).astype(np.float32) for _ in range(3))
    calls = ["fma(x, y, z)", "fmax3(x, y, z)", "fmin3(x, y, z)", "fmedian3(x, y, z)"]
    calls += [
        "[&] { float c; return sincos(x, c); }()",
        "[&] { float c; sincos(x, c); return c; }()",
        "sin(x)",
        "cos(x)",
    ]
    got = run(calls, [x, y, z])
    wide = x.astype(np.longdouble) * y.astype(np.longdouble) + z.astype(np.longdouble)
    assert np.array_equal(got[0], wide.astype(np.float32))
    assert np.array_equal(got[1], np.max([x, y, z], axis=0)) and np.array_equal(got[2], np.min([x, y, z], axis=0))
    assert np.array_equal(got[3], np.median([x, y, z], axis=0))
    assert np.array_equal(got[4], got[6]) and np.array_equal(got[5], got[7])
