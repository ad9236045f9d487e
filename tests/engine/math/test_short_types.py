"""half and bfloat: every one of the 65,536 values, rounded as if computed exactly."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.engine.math.launch import run
from tests.engine.math.reference import UNARY

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
        assert (off != 0).mean() < 1e-3, f"{name}: {(off != 0).sum()} values are not rounded correctly"


@pytest.mark.feature("math", "half fma with one rounding")
def test_half_fma_rounds_once() -> None:
    rng = np.random.default_rng(11)
    a, b, c = (rng.integers(0, 65536, 400_000).astype(np.uint16).view(np.float16) for _ in range(3))
    (got,) = run(["fma(x, y, z)"], [a, b, c], kind="half")
    with np.errstate(all="ignore"):
        # A product of halves and its sum with a half are exact in float64, but for sums that round the same way anyway.
        want = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)
    assert (steps(got, want) == 0).all()


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
