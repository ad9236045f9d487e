"""Functions across the lanes of a simdgroup, whole and partial."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.include.probe import DTYPES, Array, parts, probe

LANES = np.arange(32)
MOVED = ("char", "uchar", "short", "ushort", "int", "uint", "half", "bfloat", "float")


def numbers(name: str, count: int = 32) -> Array:
    dtype = DTYPES[name]
    values = (np.arange(count) * 7 + 3) % 100
    if dtype.kind not in "u":
        values = values * np.where(np.arange(count) % 3 == 0, -1, 1)
    return values.astype(dtype)


@pytest.mark.feature("simdgroup", "shuffle, xor, up, down, rotate, broadcast")
@pytest.mark.parametrize("name", MOVED)
def test_moves(name: str) -> None:
    v = numbers(name)
    wanted = {
        "simd_shuffle(v, ushort(31 - i))": v[31 - LANES],
        "simd_shuffle_xor(v, 5)": v[LANES ^ 5],
        "simd_shuffle_up(v, 3)": np.where(LANES >= 3, v[np.maximum(LANES - 3, 0)], v),
        "simd_shuffle_down(v, 4)": np.where(LANES < 28, v[np.minimum(LANES + 4, 31)], v),
        "simd_shuffle_rotate_up(v, 2)": v[(LANES - 2) % 32],
        "simd_shuffle_rotate_down(v, 9)": v[(LANES + 9) % 32],
        "simd_broadcast(v, 6)": np.full(32, v[6]),
        "simd_broadcast_first(v)": np.full(32, v[0]),
        "simd_shuffle_and_fill_up(v, w, 3)": np.where(LANES >= 3, v[LANES - 3], numbers(name)[::-1][(LANES - 3) % 32]),
        "simd_shuffle_and_fill_down(v, w, 2, 8)": np.where(
            LANES % 8 < 6, v[np.minimum(LANES + 2, 31)], v[::-1][LANES // 8 * 8 + (LANES + 2) % 8]
        ),
    }
    got = probe(list(wanted), name, v=v, w=np.ascontiguousarray(v[::-1]))
    for column, (expression, want) in enumerate(wanted.items()):
        # Lanes that would read past the edge are undefined for up and down; ours keep their own value.
        assert got[:, column].tolist() == want.tolist(), expression


@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
@pytest.mark.parametrize("threads", [32, 64, 160])
def test_shuffles_from_one_lane(mode: str, threads: int) -> None:
    """The lane is a constant, an argument, or counted in a loop that lanes leave at different times."""
    source = """#include <metal_stdlib>
    using namespace metal;
    kernel void k(device const int* x, device int4* y, constant uint& from, uint i [[thread_position_in_grid]]) {
      int v = x[i], s = 0, odd = -1;
      for (uint k = 0; k <= i % 4; ++k) s += simd_shuffle(v, ushort(31 - 4 * k));
      if (i % 2) odd = simd_shuffle(v, ushort(from | 1)) + int(i);
      y[i] = int4(simd_shuffle(v, ushort(7)), simd_shuffle(v, ushort(from)), s, odd);
    }"""
    x, lane = np.arange(threads, dtype=np.int32) * 37 % 101, np.arange(threads) % 32
    rows = x.reshape(-1, 32)[np.arange(threads) // 32]
    for source_lane in (0, 6, 17, 31):
        y = np.zeros((threads, 4), np.int32)
        with metalcore.mode(mode):
            metalcore.Library(source).function("k")(x, y, source_lane, threads=threads, group_size=threads)
        summed = sum(np.where(lane % 4 >= k, rows[:, 31 - 4 * k], 0) for k in range(4))
        odd = np.where(lane % 2 == 1, rows[:, source_lane | 1] + np.arange(threads), -1)
        assert np.array_equal(y, np.stack([rows[:, 7], rows[:, source_lane], summed, odd], 1)), source_lane


@pytest.mark.feature("simdgroup", "moves of vectors")
def test_moves_of_vectors() -> None:
    v = np.arange(96, dtype=np.float32).reshape(32, 3)
    got = probe(
        parts("simd_shuffle_xor(v, 1)", 3)
        + parts("simd_broadcast(v, 2)", 3)
        + parts("half3(simd_shuffle_down(half3(v), 1))", 3),
        v=v,
    )
    assert np.array_equal(got[:, :3], v[LANES ^ 1])
    assert np.array_equal(got[:, 3:6], np.tile(v[2], (32, 1)))
    assert np.array_equal(got[:31, 6:], v[1:])


@pytest.mark.feature("simdgroup", "sum, product, min, max")
@pytest.mark.parametrize(
    ("name", "count"), [*((name, 32) for name in MOVED), ("uchar", 28), ("int", 28), ("float", 28)]
)
def test_reductions(name: str, count: int) -> None:
    v = numbers(name, count)
    small = np.where(np.arange(count) % 8 == 0, 2, 1).astype(DTYPES[name])
    got = probe(["simd_sum(v)", "simd_min(v)", "simd_max(v)", "simd_product(s)"], name, v=v, s=small)
    wide = v.astype(np.int64)
    total = np.array(wide.sum()).astype(DTYPES[name])
    assert set(got[:, 0].tolist()) == {total.item()}
    assert set(got[:, 1].tolist()) == {wide.min()}
    assert set(got[:, 2].tolist()) == {wide.max()}
    assert set(got[:, 3].tolist()) == {16}


@pytest.mark.feature("simdgroup", "prefix sums and products")
@pytest.mark.parametrize(
    ("name", "count"),
    [("char", 32), ("int", 32), ("half", 32), ("float", 32), ("ushort", 13), ("uint", 13), ("float", 13)],
)
def test_prefix(name: str, count: int) -> None:
    v = (numbers(name, count).astype(np.int64) % 5).astype(DTYPES[name])
    s = np.where(np.arange(count) % 8 == 0, 2, 1).astype(DTYPES[name])
    got = probe(
        [
            "simd_prefix_inclusive_sum(v)",
            "simd_prefix_exclusive_sum(v)",
            "simd_prefix_inclusive_product(s)",
            "simd_prefix_exclusive_product(s)",
        ],
        name,
        v=v,
        s=s,
    )
    sums, products = np.cumsum(v.astype(np.int64)), np.cumprod(s.astype(np.int64))
    assert got[:, 0].tolist() == sums.tolist()
    assert got[:, 1].tolist() == [0, *sums[:-1].tolist()]
    assert got[:, 2].tolist() == products.tolist()
    assert got[:, 3].tolist() == [1, *products[:-1].tolist()]


@pytest.mark.feature("simdgroup", "and, or, xor")
@pytest.mark.parametrize("name", ["char", "uchar", "ushort", "int", "uint"])
def test_bits(name: str) -> None:
    v = numbers(name)
    got = probe(["simd_and(v)", "simd_or(v)", "simd_xor(v)"], name, v=v)
    want = [np.bitwise_and.reduce(v), np.bitwise_or.reduce(v), np.bitwise_xor.reduce(v)]
    assert (got == np.array(want)).all()


@pytest.mark.feature("simdgroup", "votes")
@pytest.mark.parametrize("count", [32, 20])
def test_votes(count: int) -> None:
    v = (np.arange(count) % 3 == 1).astype(np.int32)
    got = probe(
        [
            "ulong(simd_vote::vote_t(simd_ballot(v != 0)))",
            "ulong(simd_vote::vote_t(simd_active_threads_mask()))",
            "simd_all(v >= 0)",
            "simd_all(v > 0)",
            "simd_any(v > 0)",
            "simd_any(v > 7)",
            "simd_is_first()",
            "simd_ballot(v >= 0).all()",
            "simd_ballot(v > 0).all()",
            "simd_ballot(v > 0).any()",
        ],
        "ulong",
        v=v,
    )
    mask = sum(1 << int(k) for k in np.flatnonzero(v))
    for lane in range(count):
        assert got[lane].tolist() == [mask, (1 << count) - 1, 1, 0, 1, 0, lane == 0, 1, 0, 1]


@pytest.mark.feature("simdgroup", "functions in divergent code see the active lanes only")
def test_divergence() -> None:
    v = np.arange(32, dtype=np.int32)
    setup = """
  int r;
  if (v % 4 == 3) r = simd_sum(v);
  else if (simd_is_first()) r = 1000;
  else r = popcount(ulong(simd_vote::vote_t(simd_ballot(true))));
"""
    got = probe(["r"], "int", setup=setup, v=v)[:, 0]
    # Lane 0 has left by then, so 23 lanes vote.
    want = np.where(v % 4 == 3, v[v % 4 == 3].sum(), 23)
    want[0] = 1000
    assert got.tolist() == want.tolist()


@pytest.mark.feature("simdgroup", "half sums are rounded once")
def test_half_sum_is_kept_in_float() -> None:
    v = np.full(32, 2049 / 32 + 1 / 64).astype(np.float16)
    got = probe(["simd_sum(v)"], "half", v=v)[0, 0]
    assert got == np.float16(v.astype(np.float32).sum())


def test_nan_in_a_sum_and_minimum() -> None:
    v = np.ones(32, np.float32)
    v[7] = np.nan
    assert np.isnan(probe(["simd_sum(v)"], v=v)).all()


def test_second_simdgroup_of_a_threadgroup_is_its_own() -> None:
    v = np.arange(100, dtype=np.float32)
    got = probe(["simd_sum(v)"], v=v, group=100)[:, 0]
    want = np.concatenate([np.full(len(c), c.sum()) for c in np.split(v, [32, 64, 96])])
    assert np.array_equal(got, want)
