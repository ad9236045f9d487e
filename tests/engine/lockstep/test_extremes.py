"""Choices between two numbers by their order: the same bits as the source says, found without a test that is mixed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device const float* z [[buffer(1)]],
              device const uint* flags [[buffer(2)]], device float* y [[buffer(3)]],
              uint i [[thread_position_in_grid]]) {
  float a = x[i], b = z[i];
  bool s = flags[i] & 1, t = flags[i] & 2;
  y[i] = CHOICE ? a : b;
}
"""
NUMBERS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40], np.float32)
CHOICES = {
    "(a < b) == s": lambda a, b, s, t: (a < b) == s,
    "(a > b) != s": lambda a, b, s, t: (a > b) != s,
    "!(a < b) == s": lambda a, b, s, t: ~(a < b) == s,
    "(b < a) == (s == t)": lambda a, b, s, t: (b < a) == (s == t),
    "(a <= b) == s": lambda a, b, s, t: (a <= b) == s,
    "((a < b) == s) != (a > b)": lambda a, b, s, t: ((a < b) == s) != (a > b),
}


def code(choice: str, width: int) -> str:
    unit = make_unit(SOURCE, path=None, include_dirs=[], defines={"CHOICE": f"({choice})"}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    return vectorise(scalar, layout="line", single=False, checked=False, width=width, tail=False).ir


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("choice", CHOICES)
def test_bits(choice: str, mode: str) -> None:
    a, b, flags = (v.ravel() for v in np.meshgrid(NUMBERS, NUMBERS, np.arange(4, dtype=np.uint32)))
    y = np.empty_like(a)
    library = metalcore.Library(SOURCE, defines={"CHOICE": f"({choice})"})
    with metalcore.mode(mode):
        library.function("k")(a.copy(), b.copy(), flags.copy(), y, threads=a.size, group_size=64)
    first = CHOICES[choice](a, b, (flags & 1).astype(bool), (flags & 2).astype(bool))
    np.testing.assert_array_equal(y.view(np.uint32), np.where(first, a, b).view(np.uint32))


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("choice", ["(a < b) == s", "(a > b) != s", "!(a < b) == s", "(b < a) == (s == t)"])
def test_both_are_found(choice: str, width: int) -> None:
    """The smaller and the larger one in each part of the lanes, held apart from what chooses between them."""
    written = code(choice, width)
    held = re.findall(r"call <\d+ x float> @llvm\.arithmetic\.fence", written)
    assert len(held) == 2 * (32 // width)


def test_orders_with_equality_stay() -> None:
    """No instruction of the machine gives both for -0 and NaN."""
    assert "arithmetic.fence" not in code("(a <= b) == s", 16)


LANES = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device const float* z [[buffer(1)]],
              constant uint& n [[buffer(2)]], device float* y [[buffer(3)]],
              uint i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  float a = x[i], b = z[i];
  bool s = n & 1;
  y[i] = CHOICE ? a : b;
}
"""
OF_LANES = {
    "(a < b) == ((lane & 2) == 0)": lambda a, b, lane, s: (a < b) == (lane & 2 == 0),
    "(a > b) == ((lane & 16) != 0)": lambda a, b, lane, s: (a > b) == (lane & 16 != 0),
    "(a < b) == (((lane & 8) == 0) == s)": lambda a, b, lane, s: (a < b) == ((lane & 8 == 0) == s),
    "(a < b) == (((lane & 16) == 0) == s)": lambda a, b, lane, s: (a < b) == ((lane & 16 == 0) == s),
    "(a < b) == ((((lane & 16) == 0) == ((lane & 1) == 0)) == s)": lambda a, b, lane, s: (
        (a < b) == (((lane & 16 == 0) == (lane & 1 == 0)) == s)
    ),
    "!(a > b) == s": lambda a, b, lane, s: ~(a > b) == s,
}


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("choice", OF_LANES)
def test_bits_where_lanes_choose(choice: str, mode: str) -> None:
    """Chosen by known lanes and by what is the same for all; also in a last simdgroup that is not full."""
    a, b, _ = (v.ravel() for v in np.meshgrid(NUMBERS, NUMBERS, np.arange(13)))
    lane = np.arange(a.size) % 100 % 32
    library = metalcore.Library(LANES, defines={"CHOICE": f"({choice})"})
    for n in (0, 1):
        y = np.empty_like(a)
        with metalcore.mode(mode):
            library.function("k")(a.copy(), b.copy(), n, y, threads=a.size, group_size=100)
        first = OF_LANES[choice](a, b, lane, bool(n))
        np.testing.assert_array_equal(y.view(np.uint32), np.where(first, a, b).view(np.uint32))
