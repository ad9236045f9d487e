"""Tiles in threadgroup memory: where the size of the group shows that accesses stay inside, and where it does not."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.errors import KernelFault

MEET = "threadgroup_barrier(mem_flags::mem_threadgroup);"
HEAD = """#include <metal_stdlib>
using namespace metal;
kernel void k(device float* y, constant uint& rows, TILE uint2 l [[thread_position_in_threadgroup]],
              uint2 n [[threads_per_threadgroup]]) { """
# Each thread fills two rows of its column and sums what all have written to it.
SUMS = f"""for (uint r = 0; r < 2; ++r) tile[l.y * 2 + r][l.x] = float((l.y * 2 + r) * 32 + l.x); {MEET}
  float s = 0; for (uint i = 0; i < 16; ++i) s += tile[i][l.x]; y[l.y * n.x + l.x] = s; }}"""
OWN = "threadgroup float tile[16][32]; "
ONLY_SOME = f"if (l.y < rows) tile[l.y][l.x] = 1; {MEET} y[l.y * n.x + l.x] = tile[l.y % 16][l.x]; }}"


def source(body: str, tile: str = "") -> str:
    return HEAD.replace("TILE", tile) + body


def run(body: str, group: tuple[int, int], rows: int = 0, mode: str = "checked") -> np.ndarray:
    y = np.zeros(group[0] * group[1], np.float32)
    with metalcore.mode(mode):
        metalcore.Library(source(OWN + body)).function("k")(y, rows, threadgroups=1, group_size=group)
    return y.reshape(group[1], group[0])


def lockstep(body: str, layout: str, checked: bool = True, keep_tests: bool = False) -> str:
    unit = make_unit(source(body), path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir, guarded=checked)
    given = {"single": False, "checked": checked, "width": 8, "tail": False, "keep_tests": keep_tests}
    return vectorise(scalar, layout=layout, **given).ir


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
def test_groups_that_fit(mode: str) -> None:
    columns = 16 * np.arange(32) + 32 * 120
    np.testing.assert_array_equal(run(SUMS, (32, 8), mode=mode), np.broadcast_to(columns, (8, 32)))


@pytest.mark.parametrize("group", [(32, 9), (32, 16), (64, 8)])
def test_groups_that_do_not_fit_are_reported(group: tuple[int, int]) -> None:
    with pytest.raises(KernelFault, match="threadgroup memory 'tile'"):
        run(SUMS, group)


@pytest.mark.parametrize("group", [(32, 16), (32, 32)])
def test_threads_that_stay_inside_by_a_test_of_their_own(group: tuple[int, int]) -> None:
    """The size of the group does not show it: each access is tested, and none of them fails."""
    y = run(ONLY_SOME, group, rows=16)
    np.testing.assert_array_equal(y, 1)
    if group[1] > 16:
        with pytest.raises(KernelFault, match="threadgroup memory 'tile'"):
            run(ONLY_SOME, group, rows=17)


def test_threadgroup_arguments() -> None:
    text = source(SUMS.replace("tile[l.y * 2 + r][l.x]", "tile[(l.y * 2 + r) * 32 + l.x]"), "threadgroup float* tile,")
    kernel = metalcore.Library(text.replace("tile[i][l.x]", "tile[i * 32 + l.x]")).function("k")
    y = np.zeros(256, np.float32)
    with metalcore.mode("checked"):
        kernel(y, 0, threadgroup_memory={0: 2048}, threadgroups=1, group_size=(32, 8))
        np.testing.assert_array_equal(y.reshape(8, 32), np.broadcast_to(16 * np.arange(32) + 32 * 120, (8, 32)))
        with pytest.raises(KernelFault, match="threadgroup"):
            kernel(y, 0, threadgroup_memory={0: 2048 - 16}, threadgroups=1, group_size=(32, 8))


def test_one_flag_stands_for_the_tests() -> None:
    text = lockstep(OWN + SUMS, "rows")
    assert text.count("%all_inside = ") == 1 and text.count("br i1 %all_inside") >= 2
    assert "all_inside" not in lockstep(OWN + SUMS, "rows", keep_tests=True)
    assert "all_inside" not in lockstep(OWN + SUMS, "rows", checked=False)


def test_a_counter_that_stays_inside_needs_no_test() -> None:
    inside = f"{OWN} if (l.x == 0) tile[l.y % 16][0] = 1; {MEET} float s = 0; "
    loop = "for (uint i = 0; i < LAST; ++i) { s += tile[i][3]; if (s > 1e9f) s = y[i]; } y[0] = s; }"
    counts = [lockstep(inside + loop.replace("LAST", last), "line").count("@mc.slow") for last in ("16", "17")]
    assert counts[0] < counts[1]
