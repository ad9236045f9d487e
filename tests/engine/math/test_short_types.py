"""half and bfloat: every one of the 65,536 values, rounded as if computed exactly."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.engine.math.launch import run
from tests.engine.math.reference import EITHER_ZERO, UNARY

NAMES = [name for name in UNARY if name not in ("fract",)]
GROUPS = [NAMES[:6], NAMES[6:12], NAMES[12:18], NAMES[18:24], NAMES[24:]]
TYPES = {"half": np.float16, "bfloat": ml_dtypes.bfloat16}


def steps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How many values of the type lie between, with both zeros and all NaNs taken as one."""
    keys = []
    for a in (got, want):
        bits = a.view(np.int16).astype(np.int32)
        keys.append(np.where(bits < 0, -(bits & 0x7FFF), bits))
    both_nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    return np.where(both_nan, 0, np.abs(keys[0] - keys[1]))


@pytest.mark.feature("math", "functions of half and bfloat, all 65,536 values")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_all_values(kind: str, group: int) -> None:
    dtype = TYPES[kind]
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    rows = run([f"precise::{name}(x)" for name in GROUPS[group]], [x], kind=kind)
    for name, got in zip(GROUPS[group], rows, strict=True):
        with np.errstate(all="ignore"):
            exact = UNARY[name][0](x.astype(np.float64))
            want = exact.astype(dtype)
        off = steps(got, want)
        # Computed in float and rounded once: only where the exact value is all but halfway may the neighbour come out.
        assert off.max() <= 1, f"{name}({x[off.argmax()]}) = {got[off.argmax()]}, not {want[off.argmax()]}"
        zeros = (got == 0) & (want == 0)
        if name not in EITHER_ZERO:
            assert np.array_equal(got.view(np.uint16)[zeros], want.view(np.uint16)[zeros]), f"{name}: sign of a zero"
        assert (off != 0).mean() < 1e-3, f"{name}: {(off != 0).sum()} values are not rounded correctly"


def to_odd(wide: np.ndarray, rest: np.ndarray, dtype: type, bits: type) -> np.ndarray:
    """wide + rest in a narrower type, its last bit set where bits are dropped, so that a later rounding sees no tie."""
    narrow = wide.astype(dtype)
    dropped = np.where(narrow == wide, rest, wide - narrow)
    even = (narrow.view(bits) & 1) == 0
    toward = np.where(dropped > 0, np.inf, -np.inf).astype(dtype)
    return np.where(np.isfinite(narrow) & (dropped != 0) & even, np.nextafter(narrow, toward), narrow)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: type) -> np.ndarray:
    """a * b + c rounded once."""
    product = a.astype(np.longdouble) * b.astype(np.longdouble)
    addend = c.astype(np.longdouble)
    total = product + addend
    back = total - product
    dropped = (product - (total - back)) + (addend - back)
    double = to_odd(total, dropped, np.float64, np.int64)
    return to_odd(double, np.zeros_like(double), np.float32, np.int32).astype(dtype)


@pytest.mark.feature("math", "fma of half and bfloat rounds once, and so does x * y + z in safe mode")
@pytest.mark.parametrize("kind", TYPES)
def test_fma_rounds_once(kind: str) -> None:
    rng = np.random.default_rng(11)
    dtype = TYPES[kind]
    a, b, c = (rng.integers(0, 65536, 400_000).astype(np.uint16).view(dtype) for _ in range(3))
    called, written, apart = run(
        ["fma(x, y, z)", "x * y + z", f"[&] {{ {kind} p = x * y; return p + z; }}()"], [a, b, c], kind=kind
    )
    with np.errstate(all="ignore"):
        want = fused(a, b, c, dtype)
        product = (a.astype(np.float32) * b.astype(np.float32)).astype(dtype)
        rounded = (product.astype(np.float32) + c.astype(np.float32)).astype(dtype)
    # Products outside float's range are left out: their last bits are gone.
    size = np.abs(a.astype(np.float64) * b.astype(np.float64))
    fits = (size > 2.0**-120) & (size < 2.0**127)
    assert (steps(called, want)[fits] == 0).all()
    assert (steps(written, want)[fits] == 0).all()
    assert (steps(apart, rounded) == 0).all()


@pytest.mark.feature("math", "fract and nextafter of half and bfloat")
@pytest.mark.parametrize("kind", TYPES)
def test_fract_and_nextafter(kind: str) -> None:
    dtype = TYPES[kind]
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    up, below, fraction = run(
        [f"nextafter(x, {kind}(INFINITY))", f"nextafter(x, {kind}(-INFINITY))", "fract(x)"], [x], kind=kind
    )
    with np.errstate(all="ignore"):
        assert (steps(up, np.nextafter(x, dtype(np.inf))) == 0).all()
        assert (steps(below, np.nextafter(x, dtype(-np.inf))) == 0).all()
        wide = x.astype(np.float32)
        want = np.minimum((wide - np.floor(wide)).astype(dtype), np.nextafter(dtype(1), dtype(0)))
    finite = np.isfinite(wide)
    assert (fraction[finite] == want[finite]).all() and (fraction[finite].astype(np.float32) < 1).all()
