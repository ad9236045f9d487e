"""8x8 operands that lanes load by themselves, two elements each: products read the matrix where it lies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm

# z = x y + x y', with x and y as they lie in threadgroup memory, or transposed; 64 threads, one matrix each simdgroup.
SOURCE = """#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void k(device const T* x [[buffer(0)]], device const T* y [[buffer(1)]], device float* z [[buffer(2)]],
              device float* w [[buffer(3)]], ushort lane [[thread_index_in_simdgroup]],
              ushort sg [[simdgroup_index_in_threadgroup]], ushort t [[thread_index_in_threadgroup]]) {
  threadgroup T a[2 * 8 * PITCH], b[2 * 8 * PITCH];
  for (ushort i = t; i < 2 * 8 * PITCH; i += 64) { a[i] = x[i]; b[i] = y[i]; }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const short quad = lane / 4;
  const short row = (quad & 4) + (lane / 2) % 4, column = (quad & 2) * 2 + (lane % 2) * 2;
  const threadgroup T* left = a + sg * 8 * PITCH + (LEFT_T ? column * PITCH + row : row * PITCH + column);
  const threadgroup T* right = b + sg * 8 * PITCH + (RIGHT_T ? column * PITCH + row : row * PITCH + column);
  simdgroup_matrix<float, 8, 8> p, q, r, sum = simdgroup_matrix<float, 8, 8>(0), other = sum;
  p.thread_elements()[0] = left[0];
  p.thread_elements()[1] = left[LEFT_T ? PITCH : 1];
  BETWEEN
  q.thread_elements()[FIRST] = right[0];
  q.thread_elements()[1 - FIRST] = right[RIGHT_T ? PITCH : 1];
  simdgroup_multiply_accumulate(sum, p, q, sum);
  simdgroup_multiply_accumulate(other, p, OTHER, other);
  AFTER
  device float* at = z + sg * 128 + row * 8 + column;
  at[0] = sum.thread_elements()[0];
  at[1] = sum.thread_elements()[1];
  at[64] = other.thread_elements()[0];
  at[65] = other.thread_elements()[1];
}
"""
PLAIN: dict[str, object] = {
    **{"LEFT_T": 0, "RIGHT_T": 0, "PITCH": 20, "FIRST": 0},
    **{"OTHER": "q", "BETWEEN": "", "AFTER": ""},
}
TYPES = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16}


def numbers(pitch: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, 2 * 8 * pitch).astype(np.float32)


def matrices(values: np.ndarray, pitch: int, is_transposed: object) -> np.ndarray:
    whole = values.reshape(2, 8, pitch)[:, :, :8]
    return whole.transpose(0, 2, 1) if is_transposed else whole


def run(ty: str, mode: str, **changed: object) -> tuple[np.ndarray, np.ndarray]:
    """Both products as they are and as they should be."""
    given = {**PLAIN, **changed}
    pitch = int(str(given["PITCH"]))
    x, y = numbers(pitch, 1), numbers(pitch, 2)
    z, w = np.zeros((2, 2, 8, 8), np.float32), np.zeros(64, np.float32)
    held = [torch.from_numpy(values).to(TYPES[ty]) for values in (x, y)]
    with metalcore.mode(mode):
        metalcore.Library(SOURCE, defines={"T": ty, **given}).function("k")(*held, z, w, threads=64, group_size=64)
    a, b = matrices(x, pitch, given["LEFT_T"]), matrices(y, pitch, given["RIGHT_T"])
    b = b[:, :, [1, 0, 3, 2, 5, 4, 7, 6]] if given["FIRST"] else b
    return z, np.stack([a @ b, a @ (a if given["OTHER"] == "p" else b)], 1)


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("is_right_transposed", [0, 1])
@pytest.mark.parametrize("is_left_transposed", [0, 1])
@pytest.mark.parametrize("ty", ["float", "half", "bfloat"])
def test_products(ty: str, is_left_transposed: int, is_right_transposed: int, mode: str) -> None:
    got, expected = run(ty, mode, LEFT_T=is_left_transposed, RIGHT_T=is_right_transposed)
    np.testing.assert_array_equal(got, expected)


CHANGES: dict[str, dict[str, object]] = {
    "both sides": {"OTHER": "p"},
    "both sides, transposed": {"OTHER": "p", "LEFT_T": 1},
    "elements in the other order": {"FIRST": 1},
    "an element is read too": {"AFTER": "w[t] = p.thread_elements()[1];"},
    "written between the loads": {"BETWEEN": "w[t] = 1; simdgroup_barrier(mem_flags::mem_threadgroup);"},
    "written before the products": {"AFTER": "", "BETWEEN": "a[sg * 8 * PITCH + lane] = 5;"},
    "rows beside each other": {"PITCH": 8},
    "rows beside each other, transposed": {"PITCH": 8, "LEFT_T": 1, "RIGHT_T": 1},
    "rows far apart": {"PITCH": 200},
    "an odd distance": {"PITCH": 9, "RIGHT_T": 1},
}


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("ty", ["float", "bfloat"])
def test_what_may_stand_in_the_way(ty: str, change: str, mode: str) -> None:
    got, expected = run(ty, mode, **CHANGES[change])
    np.testing.assert_array_equal(got, expected)


def code(width: int = 8, checked: bool = True, **changed: object) -> str:
    unit = make_unit(
        SOURCE, path=None, include_dirs=[], defines={"T": "half", **PLAIN, **changed}, math_mode="safe"
    )
    kernel = lower(unit, "k", None)
    scalar = llvm.optimise_scalar(kernel.ir)
    given = {"layout": "line", "single": False, "checked": checked, "width": width, "tail": False}
    return vectorise(scalar, max_threads=kernel.max_threads, **given).ir  # type: ignore[arg-type]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("is_transposed", "form"), [(0, "rows"), (1, "columns")])
def test_no_lane_gets_an_element(is_transposed: int, form: str, checked: bool) -> None:
    written = code(checked=checked, LEFT_T=is_transposed)
    assert f"@mc.mma2.{form}" in written
    assert "@mc.mma2.lanes" not in written


@pytest.mark.parametrize("change", ["elements in the other order", "an element is read too"])
def test_lanes_get_what_else_is_needed(change: str) -> None:
    assert ("@mc.mma2.lanes" in code(**CHANGES[change])) == (change == "an element is read too")
