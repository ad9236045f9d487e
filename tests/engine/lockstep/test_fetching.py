"""What simdgroups that take turns ask for before they need it."""

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
kernel void k(device const float* x [[buffer(0)]], device const float* w [[buffer(1)]], device float* y [[buffer(2)]],
              constant uint& n [[buffer(3)]], uint i [[thread_position_in_threadgroup]],
              uint size [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  threadgroup float t[256];
  float sum = 0;
  BODY
  y[group * size + i] = sum;
}"""
MEET = "threadgroup_barrier(mem_flags::mem_threadgroup);"
ROWS = f"t[i] = 1; {MEET} for (uint j = i; j < n; j += size) sum += x[group * n + j] * t[i];"
SHARED = f"t[i] = 1; {MEET} for (uint j = i; j < n; j += size) sum += w[j] * t[i];"
TILES = f"for (uint s = 0; s < n; s += STEP) {{ t[i] = x[INDEX]; {MEET} sum += t[i ^ 1]; {MEET} }}"


def code(body: str, *, single: bool = False) -> str:
    unit = make_unit(SOURCE.replace("BODY", body), path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    return vectorise(scalar, layout="line", single=single, checked=False, width=8, tail=False).ir


def fetches(text: str) -> int:
    return len(re.findall(r"call void @llvm\.prefetch", text))


def test_a_page_ahead_of_rows_that_each_threadgroup_has_of_its_own() -> None:
    text = code(ROWS)
    assert fetches(text) and fetches(text) % 2 == 0  # two lines of cache for 32 floats
    assert "i64 4096" in text
    assert not fetches(code(SHARED))
    assert not fetches(code(ROWS, single=True))


@pytest.mark.parametrize(
    ("index", "step", "growth"),
    [
        ("group * n + s + i", "64", ", i64 256"),
        ("(s + group) * n + i", "4", r"mul i64 %t\d+, 4\b"),
        ("s * 4096 + i", "2", ", i64 32768"),
        ("(s << 10) + group + i", "2", ", i64 8192"),
    ],
)
def test_what_a_tile_needs_in_the_next_round(index: str, step: str, growth: str) -> None:
    text = code(TILES.replace("INDEX", index).replace("STEP", step))
    assert fetches(text) == 2 and re.search(growth, text)


def test_nothing_where_the_next_round_is_near_or_unknown() -> None:
    assert not fetches(code(TILES.replace("INDEX", "s + i").replace("STEP", "1")))
    assert not fetches(code(TILES.replace("INDEX", "s * s * n + i").replace("STEP", "1")))


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("threads", [64, 256])
def test_sums_are_right(mode: str, threads: int) -> None:
    groups, n = 3, 96
    x = np.random.default_rng(1).integers(-4, 5, (groups, threads * n)).astype(np.float32)
    w, y = np.ones(n, np.float32), np.zeros((groups, threads), np.float32)
    body = TILES.replace("INDEX", "group * n * size + s * size + i").replace("STEP", "1")
    with metalcore.mode(mode):
        kernel = metalcore.Library(SOURCE.replace("BODY", body)).function("k")
        kernel(x, w, y, n, threadgroups=groups, group_size=threads)
    want = x.reshape(groups, n, threads).sum(1)[:, np.arange(threads) ^ 1]
    assert np.array_equal(y, want)


def test_the_next_tile_is_asked_for_behind_the_barrier() -> None:
    direct = TILES.replace("STEP", "32").replace("INDEX", "group * n + s + i")
    loop = f"for (uint s = 0; s < n; s += 32) {{ for (uint j = i; j < n; j += size) t[j] = x[s * n + j]; {MEET} }}"
    for body in (direct, loop):
        blocks = re.split(r"^(?=[\w.]+:)", code(body), flags=re.MULTILINE)
        asking = [block for block in blocks if "call void @llvm.prefetch" in block]
        assert asking and all(re.match(r"cut\.|ask\.one\.", block) for block in asking)
