"""Lanes that have an address each: the same values by one instruction (AVX-512) as lane by lane."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from tests.engine.lockstep.test_code import WIDTH, assembly

TYPES = {"float": np.float32, "int": np.int32, "long": np.int64, "half": np.float16, "uchar": np.uint8}
SOURCE = """
template <typename T> kernel void move(device const T* x [[buffer(0)]], device T* y [[buffer(1)]],
    device const uint* from [[buffer(2)]], device const uint* to [[buffer(3)]], device const uint* is_on [[buffer(4)]],
    uint i [[thread_position_in_grid]]) {
  if (is_on[i]) y[to[i]] = x[from[i]];
}
""" + "".join(f'template [[host_name("move_{t}")]] kernel decltype(move<{t}>) move<{t}>;\n' for t in TYPES)
UNALIGNED = """typedef uint word __attribute__((aligned(1)));
kernel void k(device const uchar* x, device uchar* y, device const uint* at, uint i [[thread_position_in_grid]]) {
  *(device word*)(y + at[i]) = *(device const word*)(x + at[i]);
}"""


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("kind", TYPES)
def test_some_lanes_move_numbers(kind: str, mode: str) -> None:
    """Idle lanes have addresses far outside, and neither read nor write there."""
    rng = np.random.default_rng(7)
    function = metalcore.Library(SOURCE).function(f"move_{kind}")
    for n in (1, 31, 33, 97):
        x = rng.integers(0, 100, 200).astype(TYPES[kind])
        start, to, is_on = rng.integers(0, 200, n), rng.permutation(200)[:n], rng.integers(0, 2, n)
        far = [np.where(is_on, place, 4_000_000_000).astype(np.uint32) for place in (start, to)]
        y = np.full(200, 101, TYPES[kind])
        with metalcore.mode(mode):
            function(x, y, *far, is_on.astype(np.uint32), threads=n, group_size=64)
        expected = np.full(200, 101, TYPES[kind])
        expected[to[is_on == 1]] = x[start[is_on == 1]]
        assert np.array_equal(y, expected), n


@pytest.mark.parametrize("kind", TYPES)
def test_the_last_lane_that_writes_a_place_wins(kind: str) -> None:
    """Metal leaves it open; results that change between machines are worse."""
    x, y = np.arange(32).astype(TYPES[kind]), np.zeros(8, TYPES[kind])
    lanes, ones = np.arange(32, dtype=np.uint32), np.ones(32, np.uint32)
    metalcore.Library(SOURCE).function(f"move_{kind}")(x, y, lanes, lanes % 8, ones, threads=32, group_size=32)
    assert np.array_equal(y, np.arange(24, 32).astype(TYPES[kind]))


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_words_at_any_byte(mode: str) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.integers(1, 256, 400).astype(np.uint8), np.zeros(400, np.uint8)
    at = (np.arange(33) * 11 + rng.integers(0, 7, 33)).astype(np.uint32)
    with metalcore.mode(mode):
        metalcore.Library(UNALIGNED).function("k")(x, y, at, threads=33, group_size=64)
    places = (at[:, None] + np.arange(4)).ravel()
    expected = np.zeros(400, np.uint8)
    expected[places] = x[places]
    assert np.array_equal(y, expected)


def test_one_lane_outside_is_found() -> None:
    lanes, ones = np.arange(32, dtype=np.uint32), np.ones(32, np.uint32)
    far = np.where(lanes == 19, 1 << 20, lanes).astype(np.uint32)
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    with pytest.raises(metalcore.errors.KernelFault, match=r"thread \(19, 0, 0\)"):
        metalcore.Library(SOURCE).function("move_float")(x, y, far, lanes, ones, threads=32, group_size=32)


@pytest.mark.skipif(WIDTH != 16, reason="AVX2's instructions are no faster than single loads")
@pytest.mark.parametrize("kind", ["float", "long"])
def test_one_instruction_for_all_lanes(kind: str) -> None:
    text = assembly(f"""kernel void k(device const {kind}* x, device {kind}* y, constant uint& n,
        uint i [[thread_position_in_grid]]) {{ y[i * n] = x[i * n]; }}""")
    assert re.search(r"v[p]?gather", text) and re.search(r"v[p]?scatter", text)
    assert not re.search(r"vpextr|vinsertps", text)
