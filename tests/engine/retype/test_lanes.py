"""Functions across lanes, matrices and atomics where float is read as double."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.retype.helpers import Array, close, evaluate, library

RNG = np.random.default_rng(21)


@pytest.mark.feature("simdgroup", "float read as double: reductions, scans and shuffles")
def test_reductions_and_shuffles() -> None:
    x = RNG.standard_normal(64)
    rows = x.reshape(2, 32)
    lanes = np.arange(32)
    got = evaluate(
        ["simd_sum(a)", "simd_max(a)", "simd_min(a)", "simd_product(a)", "simd_prefix_inclusive_sum(a)"]
        + ["simd_prefix_exclusive_product(a)", "simd_shuffle(a, ushort(lane * 5 % 32))", "simd_shuffle_xor(a, 7)"]
        + ["simd_shuffle_down(a, 3)", "simd_shuffle_up(a, 2)", "simd_broadcast(a, 9)", "simd_broadcast_first(a)"]
        + [
            "simd_shuffle_and_fill_down(a, -a, 1)",
            "simd_shuffle_rotate_up(float2(a, -a), 1).y",
            "quad_sum(a)",
            "quad_max(a)",
        ]
        + ["quad_shuffle_xor(a, 1)"],
        x,
    ).reshape(-1, 2, 32)
    whole = np.ones(32)
    down, up = np.where(lanes + 3 < 32, lanes + 3, lanes), np.where(lanes >= 2, lanes - 2, lanes)
    quads = rows.reshape(2, 8, 4)
    products = np.concatenate([np.ones((2, 1)), np.cumprod(rows, 1)[:, :-1]], 1)
    wanted: list[Array] = [
        *(np.outer(f(rows, axis=1), whole) for f in (np.sum, np.max, np.min, np.prod)),
        *(np.cumsum(rows, 1), products, rows[:, lanes * 5 % 32], rows[:, lanes ^ 7], rows[:, down], rows[:, up]),
        *(np.outer(rows[:, 9], whole), np.outer(rows[:, 0], whole)),
        np.concatenate([rows[:, 1:], -rows[:, :1]], 1),
        *(-np.roll(rows, 1, 1), np.repeat(quads.sum(2), 4, 1), np.repeat(quads.max(2), 4, 1), rows[:, lanes ^ 1]),
    ]
    for number, (row, value) in enumerate(zip(got, wanted, strict=True)):
        np.testing.assert_allclose(row, value, rtol=1e-13, atol=1e-15, err_msg=str(number))


def test_simdgroup_matrix_and_atomics() -> None:
    source = """
    kernel void product(device const float* a, device const float* b, device float* c, device atomic_float* total,
        uint lane [[thread_index_in_simdgroup]]) {
      simdgroup_float8x8 x, y, z(1.0f);
      simdgroup_load(x, a, 10);
      simdgroup_load(y, b, 8, 0, true);
      simdgroup_multiply_accumulate(z, x, y, z);
      simdgroup_store(z, c);
      atomic_fetch_add_explicit(total, a[lane], memory_order_relaxed);
    }"""
    a, b, c, total = RNG.standard_normal((8, 10)), RNG.standard_normal((8, 8)), np.zeros((8, 8)), np.zeros(1)
    library(source).function("product")(a, b, c, total, threads=32, group_size=32)
    np.testing.assert_allclose(c, a[:, :8] @ b.T + np.eye(8), rtol=1e-13, atol=1e-14)
    close(total, [a.ravel()[:32].sum()], 1e-13)
