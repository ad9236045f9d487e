"""Functions across the four lanes of a quadgroup."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, parts, probe

LANES = np.arange(32)
BASE, PLACE = LANES & ~3, LANES & 3


@pytest.mark.feature("simdgroup", "quadgroup moves")
@pytest.mark.parametrize("name", ["uchar", "short", "int", "half", "float"])
def test_moves(name: str) -> None:
    v = (np.arange(32) * 3 + 1).astype(DTYPES[name])
    w = (np.arange(32) + 100).astype(DTYPES[name])
    wanted = {
        "quad_shuffle(v, ushort(3 - i % 4))": v[BASE + 3 - PLACE],
        "quad_shuffle_xor(v, 2)": v[LANES ^ 2],
        "quad_shuffle_up(v, 1)": np.where(PLACE >= 1, v[LANES - 1], v),
        "quad_shuffle_down(v, 1)": np.where(PLACE < 3, v[(LANES + 1) % 32], v),
        "quad_shuffle_rotate_up(v, 1)": v[BASE + (PLACE - 1) % 4],
        "quad_shuffle_rotate_down(v, 3)": v[BASE + (PLACE + 3) % 4],
        "quad_broadcast(v, 2)": v[BASE + 2],
        "quad_broadcast_first(v)": v[BASE],
        "quad_shuffle_and_fill_up(v, w, 1)": np.where(PLACE >= 1, v[LANES - 1], w[BASE + (PLACE - 1) % 4]),
        "quad_shuffle_and_fill_down(v, w, 1)": np.where(PLACE < 3, v[(LANES + 1) % 32], w[BASE + (PLACE + 1) % 4]),
    }
    got = probe(list(wanted), name, v=v, w=w)
    for column, (expression, want) in enumerate(wanted.items()):
        assert got[:, column].tolist() == want.tolist(), expression


@pytest.mark.feature("simdgroup", "quadgroup reductions")
@pytest.mark.parametrize("name", ["char", "uint", "half", "bfloat", "float"])
def test_reductions(name: str) -> None:
    v = (np.arange(32) % 5 + 1).astype(DTYPES[name])
    groups = v.astype(np.int64).reshape(8, 4)
    wanted = {
        "quad_sum(v)": groups.sum(1).repeat(4),
        "quad_product(v)": groups.prod(1).repeat(4),
        "quad_min(v)": groups.min(1).repeat(4),
        "quad_max(v)": groups.max(1).repeat(4),
        "quad_prefix_inclusive_sum(v)": groups.cumsum(1).ravel(),
        "quad_prefix_exclusive_sum(v)": (groups.cumsum(1) - groups).ravel(),
        "quad_prefix_inclusive_product(v)": groups.cumprod(1).ravel(),
        "quad_prefix_exclusive_product(v)": (groups.cumprod(1) // groups).ravel(),
    }
    got = probe(list(wanted), name, v=v)
    for column, (expression, want) in enumerate(wanted.items()):
        assert got[:, column].tolist() == want.astype(DTYPES[name]).tolist(), expression


@pytest.mark.feature("simdgroup", "partial quadgroups")
def test_missing_lanes_do_not_contribute() -> None:
    v = np.arange(1, 7, dtype=np.int32)
    got = probe(
        ["quad_sum(v)", "quad_min(-v)", "quad_product(v)", "uint(quad_vote::vote_t(quad_active_threads_mask()))"],
        "int",
        v=v,
    )
    assert got.tolist() == [[10, -4, 24, 15]] * 4 + [[11, -6, 30, 3]] * 2


def test_divergent_lanes_do_not_contribute() -> None:
    v = np.arange(32, dtype=np.int32)
    setup = "int r = -1; bool first = false; if (v % 4 != 0) { r = quad_sum(v); first = quad_is_first(); }"
    got = probe(["r", "first"], "int", setup=setup, v=v)
    want = np.where(PLACE == 0, -1, BASE * 3 + 6)
    assert got[:, 0].tolist() == want.tolist()
    assert got[:, 1].tolist() == (PLACE == 1).tolist()


def test_votes_and_bits() -> None:
    v = np.arange(32, dtype=np.int32)
    expressions = [
        "uint(quad_vote::vote_t(quad_ballot(v % 2 == 1)))",
        "quad_all(v >= 4)",
        "quad_any(v == 5)",
        "quad_and(v)",
        "quad_or(v)",
        "quad_xor(v)",
    ]
    got = probe(expressions, "int", v=v)
    groups = v.reshape(8, 4)
    assert (got[:, 0] == 0b1010).all()
    assert got[:, 1].tolist() == (BASE >= 4).tolist()
    assert got[:, 2].tolist() == (BASE == 4).tolist()
    for column, function in ((3, np.bitwise_and), (4, np.bitwise_or), (5, np.bitwise_xor)):
        assert got[:, column].tolist() == function.reduce(groups, axis=1).repeat(4).tolist()


def test_vectors() -> None:
    v = np.arange(64, dtype=np.float32).reshape(32, 2)
    got = probe(parts("quad_sum(v)", 2) + parts("quad_shuffle_xor(v, 1)", 2), v=v)
    assert np.array_equal(got[:, :2], v.reshape(8, 4, 2).sum(1).repeat(4, axis=0))
    assert np.array_equal(got[:, 2:], v[LANES ^ 1])
