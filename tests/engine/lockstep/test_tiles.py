"""Rows of tiles: lanes that hold elements of an 8x8 matrix, lanes that write a row each."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.errors import KernelFault

# Lane and element of an 8x8 matrix as the hardware spreads it: row and column of the first of two.
MATRIX = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], constant int& stride [[buffer(2)]],
              uint lane [[thread_index_in_simdgroup]], uint i [[thread_position_in_grid]]) {
  short quad = lane / 4;
  short row = (quad & 4) + (lane / 2) % 4, column = (quad & 2) * 2 + (lane % 2) * 2;
  device const T* at = x + (IS_T ? column * PITCH + row : row * PITCH + column);
  T first = at[0], second = at[IS_T ? PITCH : 1];
  y[2 * i] = first;
  y[2 * i + 1] = second;
}
"""
# Each thread writes some elements of a row of its own; what lies between the rows stays.
ROWS = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const T* x [[buffer(0)]], device T* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  T v[COUNT];
  for (short j = 0; j < COUNT; j++) v[j] = x[i] + T(j) * T(3);
  device T* at = y + i * PITCH;
  for (short j = 0; j < COUNT; j++) at[j] = v[j];
}
"""
TYPES = {"char": np.int8, "short": np.int16, "half": np.float16, "float": np.float32}


def code(source: str, width: int, defines: dict[str, object]) -> str:
    unit = make_unit(source, path=None, include_dirs=[], defines=defines, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    return vectorise(scalar, layout="line", single=True, checked=False, width=width, tail=False).ir


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("is_transposed", [0, 1])
@pytest.mark.parametrize("pitch", [8, 9, 20])
@pytest.mark.parametrize("ty", TYPES)
def test_elements_of_a_matrix(ty: str, pitch: int, is_transposed: int, mode: str) -> None:
    x = (np.arange(8 * pitch) % 113).astype(TYPES[ty])
    y = np.zeros(64, TYPES[ty])
    library = metalcore.Library(MATRIX, defines={"T": ty, "PITCH": pitch, "IS_T": is_transposed})
    with metalcore.mode(mode):
        library.function("k")(x, y, pitch, threads=32, group_size=32)
    lane = np.arange(32)
    row, column = (lane // 4 & 4) + lane // 2 % 4, (lane // 4 & 2) * 2 + lane % 2 * 2
    matrix = x.reshape(8, pitch)[:, :8]
    matrix = matrix.T if is_transposed else matrix
    np.testing.assert_array_equal(y, np.stack([matrix[row, column], matrix[row, column + 1]], 1).ravel())


@pytest.mark.parametrize(("is_transposed", "width"), [(0, 4), (0, 8), (0, 16), (1, 8), (1, 16)])
def test_rows_are_loaded(is_transposed: int, width: int) -> None:
    """No element of the matrix is loaded by itself."""
    written = code(MATRIX, width, {"T": "short", "PITCH": 20, "IS_T": is_transposed})
    assert len(re.findall(r"load <(4|8) x i16>", written)) >= 8
    assert not re.search(r"= load i16", written)


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("threads", [32, 37, 64])
@pytest.mark.parametrize("count", [3, 4, 6, 8, 16, 20])
@pytest.mark.parametrize("ty", TYPES)
def test_rows_of_lanes(ty: str, count: int, threads: int, mode: str) -> None:
    pitch = count + 1
    x = (np.arange(threads) % 50).astype(TYPES[ty])
    y = np.full(threads * pitch, 7, TYPES[ty])
    library = metalcore.Library(ROWS, defines={"T": ty, "PITCH": pitch, "COUNT": count})
    with metalcore.mode(mode):
        library.function("k")(x, y, threads=threads, group_size=threads)
    expected = np.full((threads, pitch), 7, TYPES[ty])
    expected[:, :count] = x[:, None] + np.arange(count, dtype=TYPES[ty]) * TYPES[ty](3)
    np.testing.assert_array_equal(y.reshape(threads, pitch), expected)


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("count", [4, 8, 16])
def test_rows_are_stored(count: int, width: int) -> None:
    written = code(ROWS, width, {"T": "short", "PITCH": 40, "COUNT": count})
    assert not re.search(r"store i16 ", written)
    part = min(count, width)
    assert len(re.findall(rf"store <{part} x i16>", written)) == 32 * count // part


def test_rows_that_overlap_are_stored_in_order() -> None:
    """Lanes that write to the rows of others do it element by element, as they are written."""
    written = code(ROWS, 8, {"T": "short", "PITCH": 3, "COUNT": 4})
    assert not re.search(r"store <4 x i16>", written)


def test_a_row_that_leaves_its_buffer() -> None:
    """What is inside is written, what is behind the end is reported."""
    library = metalcore.Library(ROWS, defines={"T": "short", "PITCH": 10, "COUNT": 8})
    x, y = np.arange(32, dtype=np.int16), np.zeros(32 * 10 - 5, np.int16)
    with metalcore.mode("checked"), pytest.raises(KernelFault) as caught:
        library.function("k")(x, y, threads=32, group_size=32)
    assert "315" in str(caught.value) and "buffer 1" in str(caught.value).replace("buffer(1)", "buffer 1")
    assert y[309] == 0 and y[310] == 31 and y[314] == 31 + 12
