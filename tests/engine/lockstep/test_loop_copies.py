"""Loops that have a copy without tests, for groups that are small enough."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.errors import KernelFault

# Rows of the tile for 16 rows of threads; more threads leave it.
SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant uint& rounds [[buffer(2)]],
              uint2 at [[thread_position_in_threadgroup]], uint2 size [[threads_per_threadgroup]]) {
  threadgroup float tile[16][32];
  tile[at.y][at.x] = x[at.y * 32 + at.x];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
#pragma clang loop unroll(disable)
  for (uint i = 0; i < 32; ++i) {
    sum = fma(tile[at.y][i], tile[i % 16][at.x], sum);
    BODY
  }
  y[at.y * 32 + at.x] = sum;
}"""


def code(body: str, *, keep_tests: bool = False) -> str:
    unit = make_unit(SOURCE.replace("BODY", body), path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    return vectorise(scalar, layout="rows", single=False, checked=True, width=8, tail=False, keep_tests=keep_tests).ir


def run(body: str, rows: int, rounds: int = 7) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(rows).integers(-3, 4, (rows, 32)).astype(np.float32)
    y = np.zeros((rows, 32), np.float32)
    function = metalcore.Library(SOURCE.replace("BODY", body)).function("k")
    function(x, y, rounds, threadgroups=1, group_size=(32, rows))
    return x, y


def in_copy(text: str) -> str:
    """The blocks of second copies."""
    return "".join(re.findall(r"^S\..*?(?=^F\.|^P\.|^exit:)", text, re.MULTILINE | re.DOTALL))


def test_a_copy_has_no_tests() -> None:
    text = code("")
    assert "br i1 %all_inside" in text and "F.gate" in text
    copy = in_copy(text)
    assert "fma" in copy and "%all_inside" not in copy and "mc.slow" not in copy


def test_no_copy_where_nothing_is_asked() -> None:
    assert not in_copy(code("", keep_tests=True))


@pytest.mark.parametrize("body", ["", "if (sum > 5.0f) sum -= float(at.x);", "if (i > rounds) break;"])
def test_the_same_sums_in_both_copies(body: str) -> None:
    def expected(x: np.ndarray) -> np.ndarray:
        tile = np.zeros((16, 32), np.float32)
        tile[: len(x)] = x
        sums = np.zeros_like(x)
        for i in range(32):
            sums += tile[: len(x), i : i + 1] * tile[i % 16]
            if "sum >" in body:
                sums = np.where(sums > 5, sums - np.arange(32), sums)
            if "break" in body and i > 7:
                break
        return sums

    x, y = run(body, 16)
    assert np.array_equal(y, expected(x))


def test_a_group_that_is_too_large_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="tile"):
        run("", 17)
