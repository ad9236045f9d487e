"""Exact sums: equal to the correctly rounded result, bit for bit, in any order and with any launch shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.ops import find
from metalcore.runtimes.cpu import CpuRuntime
from tests.precise.exact import (
    SEED,
    UNIT,
    any_floats,
    as_integers,
    cancelling,
    exact_dots,
    hard_rows,
    nearest_float,
    nearest_root,
)

INF, NAN = math.inf, math.nan


def same_bits(found: Any, expected: Any) -> bool:
    return np.array_equal(
        np.asarray(found, np.float32).view(np.uint32), np.asarray(expected, np.float32).view(np.uint32)
    )


def test_ten_thousand_hard_dot_products() -> None:
    x, y = hard_rows()
    truths = exact_dots(x, y)
    expected = np.array([nearest_float(t, 2 * UNIT) for t in truths], np.float32)
    high, low = metalcore.precise.dot(x, y, precision="exact", pair=True)
    assert same_bits(high, expected)
    rest = [t - (h << UNIT) for t, h in zip(truths, as_integers(np.where(np.isfinite(high), high, 0)), strict=True)]
    expected_low = np.array([nearest_float(r, 2 * UNIT) for r in rest], np.float32)
    assert same_bits(low, np.where(np.isfinite(high), expected_low, 0))
    # The cases are as hard as they should be.
    sizes = exact_dots(np.abs(x), np.abs(y))
    conditions = [s / abs(t) for s, t in zip(sizes, truths, strict=True) if t]
    assert sum(c > 1e15 for c in conditions) > 1000 and max(conditions) > 1e30
    assert np.isinf(high).sum() > 100 and sum(0 < abs(float(h)) < 2.0**-126 for h in high) > 50


def test_order_and_launch_shape_do_not_matter() -> None:
    random = np.random.default_rng(SEED + 1)
    x, y = (torch.from_numpy(a[0]) for a in cancelling(random, 1, 20_001, 120))
    op = find("precise_dot")
    results = []
    for family in ("cpu", "apple"):
        for order in (torch.arange(len(x)), torch.randperm(len(x)), torch.argsort(x)):
            run = CpuRuntime(TorchArrays(), family=family)
            results.append(op.forward.plan(run, x[order], y[order], "exact", False)[0].item())
    assert results == [nearest_float(exact_dots(x.numpy()[None], y.numpy()[None])[0], 2 * UNIT)] * 6


@pytest.mark.sweep
def test_sums_of_any_floats() -> None:
    x = any_floats(np.random.default_rng(SEED + 2), (300, 40))
    expected = [nearest_float(sum(as_integers(row)), UNIT) for row in x]
    assert same_bits(metalcore.precise.sum(x, 1, precision="exact"), expected)


def test_roots_are_rounded_once() -> None:
    random = np.random.default_rng(SEED + 3)
    x = np.concatenate([any_floats(random, (200, 9)), np.ldexp(any_floats(random, (200, 9)), -110).astype(np.float32)])
    expected = [nearest_root(t, 2 * UNIT) for t in exact_dots(x, x)]
    assert same_bits(metalcore.precise.norm(x, 1, precision="exact"), expected)
    tiny = np.array([[1e-45, 1e-45], [1e-45, 0], [3e38, 3e38], [0, 0]], np.float32)
    found = metalcore.precise.norm(tiny, 1, precision="exact")
    assert found.tolist() == [float(np.float32(1e-45)), float(np.float32(1e-45)), INF, 0.0]


def test_products_of_matrices() -> None:
    random = np.random.default_rng(SEED + 4)
    x, y = cancelling(random, 40, 131, 100)
    a, b = x[:5], np.ascontiguousarray(y[:40].T)
    rows = [exact_dots(np.tile(row, (40, 1)), y) for row in a]
    expected = [[nearest_float(t, 2 * UNIT) for t in row] for row in rows]
    high, low = metalcore.precise.matmul(a, b, precision="exact", pair=True)
    assert same_bits(high, expected)
    few = metalcore.precise.matmul(a, b[:, :3], precision="exact")
    assert same_bits(few, np.array(expected)[:, :3])
    rests = [
        t - (h << UNIT) for row, hs in zip(rows, high, strict=True) for t, h in zip(row, as_integers(hs), strict=True)
    ]
    assert same_bits(low.reshape(-1), [nearest_float(r, 2 * UNIT) for r in rests])


@pytest.mark.parametrize(
    "terms, expected",
    [
        ([], 0.0),
        ([(0.0, -1.0)], 0.0),  # a sum of zeros is +0, whatever their signs
        ([(1.0, 1.0), (-1.0, 1.0)], 0.0),
        ([(-1e-45, 1e-45)], -0.0),  # not zero, but too small for a float
        ([(INF, 1.0), (1.0, 1.0)], INF),
        ([(INF, -1.0)], -INF),
        ([(INF, 1.0), (INF, -1.0)], NAN),
        ([(INF, 0.0)], NAN),
        ([(NAN, 0.0)], NAN),
        ([(3e38, 3e38)], INF),
        ([(3e38, 3e38), (-3e38, 3e38), (2.0, 3.0)], 6.0),  # products may be too large for a float
        ([(3.4028234663852886e38, 1.0), (2.0**103, 1.0)], INF),  # half-way to what would be 2^128
        ([(3.4028234663852886e38, 1.0), (2.0**103, 1.0), (-1e-45, 1e-45)], 3.4028234663852886e38),
    ],
)
def test_corners(terms: list[tuple[float, float]], expected: float) -> None:
    x = np.array([t[0] for t in terms], np.float32)
    y = np.array([t[1] for t in terms], np.float32)
    assert same_bits(metalcore.precise.dot(x, y, precision="exact"), expected)
    wide = np.tile(y[:, None], (1, 16))
    high, low = metalcore.precise.matmul(x[None], wide, precision="exact", pair=True)
    assert same_bits(high, np.full((1, 16), expected)) and np.isfinite(low).all()


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact_when_converted(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 50).to(dtype), torch.randn(7, 50).to(dtype)
    truths = exact_dots(x.float().numpy(), y.float().numpy())
    found = metalcore.precise.dot(x, y, precision="exact")
    assert found.dtype == torch.float32
    assert same_bits(found, [nearest_float(t, 2 * UNIT) for t in truths])
