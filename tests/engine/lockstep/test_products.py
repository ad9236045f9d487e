"""Products of 8x8 matrices: what they read where it lies, which are made together, and that values stay right."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.errors import KernelFault
from tests.engine.include.probe import DTYPES

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
MODES = ("fast", "checked", "sanitize")
ZERO = "make_filled_simdgroup_matrix<float, 8, 8>(0.0f)"


def source(body: str, element: str = "float") -> str:
    return (
        f"{HEAD}kernel void k(device const {element}* a [[buffer(0)]], device const {element}* b [[buffer(1)]], "
        "device float* c [[buffer(2)]], device const uint* n [[buffer(3)]], "
        "uint lane [[thread_index_in_simdgroup]], uint sg [[simdgroup_index_in_threadgroup]]) "
        f"{{ threadgroup {element} t[1024]; typedef simdgroup_matrix<{element}, 8, 8> M; {body} }}"
    )


def code(body: str, element: str = "float", *, checked: bool = False, width: int = 8) -> str:
    unit = make_unit(source(body, element), path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    return vectorise(scalar, layout="line", single=False, checked=checked, width=width, tail=False).ir


def calls(text: str) -> dict[int, int]:
    """How many calls make one product, how many two."""
    found = re.findall(r"call fastcc void @mc\.mma(\d)", text)
    return {count: found.count(str(count)) for count in (1, 2)}


def numbers(seed: int, shape: tuple[int, ...], element: str = "float") -> np.ndarray:
    """So small that all sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(DTYPES[element])


def run(body: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str, threads: int = 32, n: int = 3) -> np.ndarray:
    element = {np.dtype(dtype): name for name, dtype in DTYPES.items()}[a.dtype]
    with metalcore.mode(mode):
        kernel = metalcore.Library(source(body, element)).function("k")
        kernel(a, b, c, np.full(1024, n, np.uint32), threadgroups=1, group_size=threads)
    return c


def tiles(across: int) -> str:
    n = 8 * across
    return f"""
    simdgroup_float8x8 sums[2][{across}];
    for (uint i = 0; i < 2; ++i) for (uint j = 0; j < {across}; ++j) sums[i][j] = {ZERO};
    for (uint k = 0; k < 32; k += 8) {{
      M left[2], right[{across}];
      for (uint i = 0; i < 2; ++i) simdgroup_load(left[i], a + i * 8 * 32 + k, 32);
      for (uint j = 0; j < {across}; ++j) simdgroup_load(right[j], b + k * {n} + j * 8, {n});
      for (uint i = 0; i < 2; ++i)
        for (uint j = 0; j < {across}; ++j) simdgroup_multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
    }}
    for (uint i = 0; i < 2; ++i)
      for (uint j = 0; j < {across}; ++j) simdgroup_store(sums[i][j], c + i * 8 * {n} + j * 8, {n});
    """


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element", ["float", "half", "bfloat"])
@pytest.mark.parametrize("across", [1, 2, 3])
def test_tiles_of_sums(mode: str, element: str, across: int) -> None:
    a, b = numbers(1, (16, 32), element), numbers(2, (32, 8 * across), element)
    c = run(tiles(across), a, b, np.zeros((16, 8 * across), np.float32), mode)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("across", "sizes"), [(1, [1]), (2, [2]), (3, [1, 2]), (4, [2])])
def test_products_with_one_left_side_are_one_call(across: int, sizes: list[int]) -> None:
    found = calls(code(tiles(across)))
    assert [count for count in found if found[count]] == sizes and len(set(found.values()) - {0}) == 1
    assert "mc.mma" not in code(tiles(across), width=4)


def test_what_only_products_need_is_not_loaded() -> None:
    one = f"M x, y; simdgroup_load(x, a, 8); simdgroup_load(y, b, 8); {'{}'} simdgroup_float8x8 z = {ZERO};"
    one += "simdgroup_multiply_accumulate(z, x, y, z); simdgroup_store(z, c, 8);"
    assert "load <4 x i32>" not in code(one.format(""))
    assert "load <4 x i32>" in code(one.format("c[64 + lane] = x.thread_elements()[0];"))


@pytest.mark.parametrize("mode", MODES)
def test_memory_that_changes_between_a_load_and_its_product(mode: str) -> None:
    body = f"""
    for (uint i = lane; i < 64; i += 32) t[i] = a[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    M x, y; simdgroup_float8x8 z = {ZERO};
    simdgroup_load(x, t, 8);
    simdgroup_load(y, b, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 64; i += 32) t[i + lane] = 77;
    simdgroup_multiply_accumulate(z, x, y, z);
    simdgroup_store(z, c, 8);
    """
    a, b = numbers(3, (8, 8)), numbers(4, (8, 8))
    assert np.array_equal(run(body, a, b, np.zeros((8, 8), np.float32), mode), a @ b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element", ["float", "half", "bfloat"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_transposed_factors(mode: str, element: str, side: str) -> None:
    body = f"""
    M x, y; simdgroup_float8x8 z = {ZERO};
    for (uint k = 0; k < 16; k += 8) {{
      simdgroup_load(x, a + {"k * 24" if side == "left" else "k"}, 24, ulong2(0), {str(side == "left").lower()});
      simdgroup_load(y, b + {"k * 24" if side == "left" else "k"}, 24, ulong2(0), {str(side == "right").lower()});
      simdgroup_multiply_accumulate(z, x, y, z);
    }}
    simdgroup_store(z, c, 8);
    """
    a, b = numbers(5, (16, 24), element), numbers(6, (16, 24), element)
    x, y = a.astype(np.float32), b.astype(np.float32)
    want = x[:, :8].T @ y[:, :8] if side == "left" else x[:8, :16] @ y[:8, :16].T
    assert np.array_equal(run(body, a, b, np.zeros((8, 8), np.float32), mode), want)


@pytest.mark.parametrize("mode", MODES)
def test_sums_that_begin_with_something_and_are_looked_at_in_the_loop(mode: str) -> None:
    body = """
    simdgroup_float8x8 z; simdgroup_load(z, c, 8);
    for (uint k = 0; k < n[0]; ++k) {
      M x, y; simdgroup_load(x, a, 8); simdgroup_load(y, b, 8);
      simdgroup_multiply_accumulate(z, x, y, z);
      z.thread_elements()[0] *= 2.0f;
      z.thread_elements()[1] += float(lane);
    }
    simdgroup_store(z, c, 8);
    """
    lane = np.arange(32)
    row, column = (lane // 4 & 4) + lane // 2 % 4, (lane // 4 & 2) * 2 + lane % 2 * 2
    a, b, c = numbers(7, (8, 8)), numbers(8, (8, 8)), numbers(9, (8, 8))
    want = c.copy()
    for _ in range(3):
        want = want + a @ b
        want[row, column] *= 2
        want[row, column + 1] += lane
    assert np.array_equal(run(body, a, b, c, mode), want)


@pytest.mark.parametrize("mode", MODES)
def test_sums_that_begin_with_something_and_stay_at_home(mode: str) -> None:
    body = """
    simdgroup_float8x8 z, w; simdgroup_load(z, c, 8); w = z;
    for (uint k = 0; k < n[0]; ++k) {
      M x, y; simdgroup_load(x, a, 8); simdgroup_load(y, b, 8);
      simdgroup_multiply_accumulate(z, x, y, z);
    }
    z.thread_elements() += w.thread_elements();
    simdgroup_store(z, c, 8);
    """
    a, b, c = numbers(7, (8, 8)), numbers(8, (8, 8)), numbers(9, (8, 8))
    want = 2 * c + 3 * (a @ b)
    assert np.array_equal(run(body, a, b, c, mode), want)


@pytest.mark.parametrize("mode", MODES)
def test_a_product_of_a_product_is_not_made_with_it(mode: str) -> None:
    body = f"""
    M x, y; simdgroup_load(x, a, 8); simdgroup_load(y, b, 8);
    simdgroup_float8x8 z = {ZERO}, w = {ZERO};
    simdgroup_multiply_accumulate(z, x, y, z);
    simdgroup_multiply_accumulate(w, x, z, z);
    simdgroup_multiply_accumulate(w, y, x, w);
    simdgroup_store(w, c, 8);
    """
    a, b = numbers(10, (8, 8)), numbers(11, (8, 8))
    z = a @ b
    assert np.array_equal(run(body, a, b, np.zeros((8, 8), np.float32), mode), a @ z + z + b @ a)
    assert calls(code(body)) == {1: 3, 2: 0}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [32, 64, 128])
def test_sums_behind_a_loop_that_lanes_might_leave_apart(mode: str, threads: int) -> None:
    body = f"""
    simdgroup_float8x8 z = {ZERO}; M x, y;
    for (uint r = 0; r < n[lane]; ++r) {{
      z = {ZERO};
      for (uint k = 0; k < n[0]; ++k) {{
        simdgroup_load(x, a, 8); simdgroup_load(y, b, 8);
        simdgroup_multiply_accumulate(z, x, y, z);
      }}
    }}
    simdgroup_store(z, c + 64 * sg, 8);
    """
    a, b = numbers(12, (8, 8)), numbers(13, (8, 8))
    c = run(body, a, b, np.zeros((threads // 32, 8, 8), np.float32), mode, threads)
    assert np.array_equal(c, np.stack([3 * (a @ b)] * (threads // 32)))


@pytest.mark.parametrize("element", ["float", "half"])
def test_a_matrix_that_is_partly_out_of_bounds(element: str) -> None:
    """What lies inside is read, the rest is 0, and the fault is told."""
    body = f"""
    M x, y; simdgroup_load(x, a, 8); simdgroup_load(y, b, 8);
    simdgroup_float8x8 z = {ZERO};
    simdgroup_multiply_accumulate(z, x, y, z);
    simdgroup_store(z, c, 8);
    """
    a, b, c = numbers(14, (8, 8), element), numbers(15, (6, 8), element), np.zeros((8, 8), np.float32)
    with pytest.raises(KernelFault, match="b"):
        run(body, a, b, c, "checked")
    assert np.array_equal(c, a.astype(np.float32)[:, :6] @ b.astype(np.float32))
