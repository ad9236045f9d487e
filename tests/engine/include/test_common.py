"""min, max, clamp, abs, mix, saturate, sign, smoothstep, step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, parts, probe, row

FLOATS = ("float", "half", "bfloat")


@pytest.mark.feature("types", "min and max ignore one NaN")
@pytest.mark.parametrize("name", FLOATS)
def test_min_and_max(name: str) -> None:
    dtype = DTYPES[name]
    x = np.array([1, -2, np.nan, 3, np.inf, np.nan]).astype(dtype)
    y = np.array([2, -5, 4, np.nan, 1, np.nan]).astype(dtype)
    got = probe(["min(x, y)", "max(x, y)", "fast::max(x, y)", "precise::min(x, y)"], name, x=x, y=y).astype(np.float64)
    low, high = [1, -5, 4, 3, 1, np.nan], [2, -2, 4, 3, np.inf, np.nan]
    np.testing.assert_array_equal(got[:, 0], low)
    np.testing.assert_array_equal(got[:, 1], high)
    np.testing.assert_array_equal(got[:5, 2], high[:5])
    np.testing.assert_array_equal(got[:5, 3], low[:5])


@pytest.mark.parametrize("name", FLOATS)
def test_three_operands(name: str) -> None:
    x, y, z = (np.array([v]).astype(DTYPES[name]) for v in (2.5, -1.0, 7.0))
    expressions = ["min3(x, y, z)", "max3(x, y, z)", "median3(x, y, z)", "clamp(z, y, x)", "clamp(y, x, z)", "abs(y)"]
    assert row(expressions, name, x=x, y=y, z=z) == [-1, 7, 2.5, 2.5, 2.5, 1]


@pytest.mark.feature("types", "common functions")
def test_saturate_sign_step() -> None:
    x = np.array([-3, -0.0, 0.0, 0.25, 1, 5, np.nan], np.float32)
    got = probe(["saturate(x)", "sign(x)", "step(0.25f, x)", "1 / sign(x)"], x=x)
    np.testing.assert_array_equal(got[:, 0], np.array([0, 0, 0, 0.25, 1, 1, 0], np.float32))
    np.testing.assert_array_equal(got[:, 1], np.array([-1, 0, 0, 1, 1, 1, 0], np.float32))
    np.testing.assert_array_equal(got[:6, 2], np.array([0, 0, 0, 1, 1, 1], np.float32))
    assert got[1:3, 3].tolist() == [-np.inf, np.inf]


def test_mix_and_smoothstep() -> None:
    assert row(["mix(2.0f, 6.0f, 0.25f)", "mix(2.0h, 6.0h, 0.5h)", "mix(1, 3.0f, 0.5f)"]) == [3, 4, 2]
    assert row(["smoothstep(0.0f, 4.0f, 2.0f)", "smoothstep(0.0f, 4.0f, 1.0f)", "smoothstep(0.0f, 4.0f, 9.0f)"]) == [
        0.5,
        0.15625,
        1,
    ]


def test_vectors_with_scalars_spread() -> None:
    v = np.array([[-2, 0.5, 3]], np.float32)
    made = {
        "max(v, 0.0f)": [0, 0.5, 3],
        "min(1, v)": [-2, 0.5, 1],
        "clamp(v, -1, 1)": [-1, 0.5, 1],
        "clamp(v, float3(0), float3(2))": [0, 0.5, 2],
        "mix(v, v * 3, 0.5f)": [-4, 1, 6],
        "saturate(v)": [0, 0.5, 1],
        "sign(v)": [-1, 1, 1],
        "abs(v)": [2, 0.5, 3],
        "step(0, v)": [0, 1, 1],
        "float3(max(half3(v), 1.0h))": [1, 1, 3],
        "median3(v, float3(0), float3(1))": [0, 0.5, 1],
    }
    assert row([c for e in made for c in parts(e, 3)], v=v) == [x for want in made.values() for x in want]


def test_mixed_scalar_types_meet_in_the_wider_one() -> None:
    header = """
static_assert(is_same_v<decltype(max(half(1), 2.0f)), float>);
static_assert(is_same_v<decltype(max(short(1), 2)), int>);
static_assert(is_same_v<decltype(min(bfloat(1), bfloat(2))), bfloat>);
"""
    assert row(["max(half(1), 2.5f)", "min(3, 2u)", "clamp(5.5f, 0, 3)", "max(true, false)"], header=header) == [
        2.5,
        2,
        3,
        1,
    ]
