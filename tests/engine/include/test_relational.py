"""Classification of floats, all, any, select."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.include.probe import DTYPES, parts, probe, row

FLOATS = ("float", "half", "bfloat")


@pytest.mark.feature("types", "float classification")
@pytest.mark.parametrize("name", FLOATS)
def test_classification(name: str) -> None:
    dtype = DTYPES[name]
    smallest = {"float": 1e-45, "half": 6e-8, "bfloat": 1e-40}[name]
    x = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, smallest]).astype(dtype)
    got = probe(["isnan(x)", "isinf(x)", "isfinite(x)", "isnormal(x)", "signbit(x)"], "bool", x=x)
    wide = x.astype(np.float64)
    assert got[:, 0].tolist() == np.isnan(wide).tolist()
    assert got[:, 1].tolist() == np.isinf(wide).tolist()
    assert got[:, 2].tolist() == np.isfinite(wide).tolist()
    assert got[:, 3].tolist() == [False, False, True, True, False, False, False, False]
    assert got[:, 4].tolist() == np.signbit(wide).tolist()


@pytest.mark.parametrize("name", FLOATS)
def test_order_of_two(name: str) -> None:
    x = np.array([1, np.nan, 1, np.nan]).astype(DTYPES[name])
    y = np.array([2, 2, np.nan, np.nan]).astype(DTYPES[name])
    got = probe(["isordered(x, y)", "isunordered(x, y)"], "bool", x=x, y=y)
    assert got.tolist() == [[True, False], [False, True], [False, True], [False, True]]


@pytest.mark.feature("types", "all, any and select")
def test_all_any_and_vectors_of_tests() -> None:
    v = np.array([[1, np.nan, np.inf, -0.0]], np.float32)
    assert row([*parts("isnan(v)", 4), *parts("isinf(v)", 4), *parts("signbit(v)", 4)], "bool", v=v) == [
        *(False, True, False, False, False, False, True, False, False, False, False, True),
    ]
    assert row(
        ["all(v.xz > 0)", "all(v > 0)", "any(v == 1)", "any(isnan(v.xz))", "all(true)", "any(false)"], "bool", v=v
    ) == [
        *(True, False, True, False, True, False),
    ]


def test_select_takes_the_second_where_true() -> None:
    a, b = np.array([[1, 2, 3]], np.float32), np.array([[10, 20, 30]], np.float32)
    made = {
        "select(a, b, a > 1)": [1, 20, 30],
        "select(a, b, bool3(true, false, true))": [10, 2, 30],
        "select(a, 0, a == 2)": [1, 0, 3],
        "select(float3(7), b, false)": [7, 7, 7],
    }
    assert row([c for e in made for c in parts(e, 3)], a=a, b=b) == [x for want in made.values() for x in want]
    assert row(["select(1.0f, 2.0f, true)", "select(5, 6, false)", "select(half(1), half(3), true)"]) == [2, 5, 3]


@pytest.mark.feature("types", "isnan and isinf in fast math")
@pytest.mark.parametrize("math_mode", ["safe", "relaxed", "fast"])
def test_classification_in_every_math_mode(math_mode: str) -> None:
    source = """
#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device const half* h [[buffer(1)]], device uint* out [[buffer(2)]],
              uint i [[thread_position_in_grid]]) {
  out[i] = isnan(x[i]) | isinf(x[i]) << 1 | isfinite(x[i]) << 2 | isnan(h[i]) << 3 | isinf(h[i]) << 4;
  out[i] |= isunordered(x[i], 1.0f) << 5;
}"""
    x = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
    out = np.zeros(5, np.uint32)
    metalcore.Library(source, math_mode=math_mode).function("k")(x, x.astype(np.float16), out, threads=5, group_size=5)
    assert out.tolist() == [4, 41, 18, 18, 4]
