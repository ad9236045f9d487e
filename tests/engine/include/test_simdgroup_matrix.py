"""simdgroup_matrix: lane layout, loads and stores, products, mixed element types."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from tests.engine.include.probe import DTYPES, HEADER, Array, launch

FLOATS = ("float", "half", "bfloat")
LANE = np.arange(32)
ROW = (LANE // 4 & 4) + LANE // 2 % 4
COLUMN = (LANE // 4 & 2) * 2 + LANE % 2 * 2


def integers(seed: int, shape: tuple[int, ...], name: str) -> Array:
    # Small enough that every sum of products is exact in bfloat.
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(DTYPES[name])


@pytest.mark.feature("simdgroup", "simdgroup_matrix lane layout")
@pytest.mark.parametrize("name", FLOATS)
def test_layout_of_thread_elements(name: str) -> None:
    source = f"""
kernel void layout(device const {name}* a [[buffer(0)]], device {name}* out [[buffer(1)]],
                   device {name}* back [[buffer(2)]], uint i [[thread_position_in_grid]]) {{
  simdgroup_matrix<{name}, 8, 8> m;
  simdgroup_load(m, a, 8);
  out[2 * i] = m.thread_elements()[0];
  out[2 * i + 1] = m.thread_elements()[1];
  reinterpret_cast<thread vec<{name}, 2>&>(m.thread_elements()) *= {name}(2);
  simdgroup_store(m, back, 8);
}}"""
    a = np.arange(64).astype(DTYPES[name]).reshape(8, 8)
    out, back = np.zeros(64, DTYPES[name]), np.zeros((8, 8), DTYPES[name])
    launch(source, "layout", [a, out, back], 32, 32)
    assert out.reshape(32, 2)[:, 0].tolist() == a[ROW, COLUMN].tolist()
    assert out.reshape(32, 2)[:, 1].tolist() == a[ROW, COLUMN + 1].tolist()
    assert back.tolist() == (a.astype(np.float32) * 2).tolist()


@pytest.mark.feature("simdgroup", "simdgroup_load and simdgroup_store")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("space", ["device", "threadgroup"])
def test_load_and_store_forms(name: str, space: str) -> None:
    copy = f"device const {name}* p = a;"
    if space == "threadgroup":
        copy = (
            "for (uint k = i; k < 320; k += 32) t[k] = a[k];"
            f"threadgroup_barrier(mem_flags::mem_threadgroup); threadgroup {name}* p = t;"
        )
    source = f"""
kernel void forms(device const {name}* a [[buffer(0)]], device {name}* out [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {{
  threadgroup {name} t[320];
  {copy}
  simdgroup_matrix<{name}, 8, 8> m;
  simdgroup_load(m, p, 20, ulong2(5, 3));
  simdgroup_store(m, out, 16);
  simdgroup_load(m, p + 20, 20, 0, true);
  simdgroup_store(m, out, 16, ulong2(8, 0));
  simdgroup_store(m, out, 16, ulong2(0, 8), true);
}}"""
    a = (np.arange(320) % 250).astype(DTYPES[name]).reshape(16, 20)
    out = np.zeros((16, 16), DTYPES[name])
    launch(source, "forms", [a, out], 32, 32)
    assert np.array_equal(out[:8, :8], a[3:11, 5:13])
    assert np.array_equal(out[:8, 8:], a[1:9, :8].T)
    assert np.array_equal(out[8:, :8], a[1:9, :8])


@pytest.mark.feature("simdgroup", "simdgroup_multiply_accumulate")
@pytest.mark.parametrize(
    ("d", "a", "b", "c"),
    [
        ("float", "float", "float", "float"),
        ("half", "half", "half", "half"),
        ("bfloat", "bfloat", "bfloat", "bfloat"),
        ("float", "half", "half", "float"),
        ("float", "bfloat", "bfloat", "float"),
        ("float", "half", "float", "float"),
        ("half", "half", "half", "float"),
    ],
)
def test_products(d: str, a: str, b: str, c: str) -> None:
    source = f"""
kernel void product(device const {a}* pa [[buffer(0)]], device const {b}* pb [[buffer(1)]],
                    device const {c}* pc [[buffer(2)]], device {d}* out [[buffer(3)]]) {{
  simdgroup_matrix<{a}, 8, 8> ma;
  simdgroup_matrix<{b}, 8, 8> mb;
  simdgroup_matrix<{c}, 8, 8> mc;
  simdgroup_matrix<{d}, 8, 8> md;
  simdgroup_load(ma, pa, 8);
  simdgroup_load(mb, pb, 8);
  simdgroup_load(mc, pc, 8);
  simdgroup_multiply_accumulate(md, ma, mb, mc);
  simdgroup_store(md, out, 8);
  simdgroup_multiply(md, ma, mb);
  simdgroup_store(md, out + 64, 8);
}}"""
    ma, mb, mc = integers(1, (8, 8), a), integers(2, (8, 8), b), integers(3, (8, 8), c)
    out = np.zeros((16, 8), DTYPES[d])
    launch(source, "product", [ma, mb, mc, out], 32, 32)
    want = ma.astype(np.float64) @ mb.astype(np.float64)
    assert np.array_equal(out[8:].astype(np.float64), want)
    assert np.array_equal(out[:8].astype(np.float64), want + mc.astype(np.float64))


@pytest.mark.feature("simdgroup", "simdgroup_matrix constructors and operators")
def test_constructors_and_operators() -> None:
    source = """
kernel void make(device const float* a [[buffer(0)]], device float* out [[buffer(1)]]) {
  simdgroup_float8x8 m, filled = make_filled_simdgroup_matrix<float, 8>(3.0f), diagonal(2.0f);
  simdgroup_load(m, a);
  simdgroup_store(filled, out);
  simdgroup_store(diagonal, out + 64);
  simdgroup_store(m * diagonal, out + 128);
  simdgroup_store(m + filled, out + 192);
  simdgroup_float8x8 copy = m;
  simdgroup_multiply_accumulate(copy, diagonal, copy, filled);
  simdgroup_store(copy, out + 256);
}"""
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    out = np.zeros((5, 8, 8), np.float32)
    launch(source, "make", [a, out], 32, 32)
    assert np.array_equal(
        out, np.stack([np.full((8, 8), 3), 2 * np.eye(8), a * 2, a + 3, a * 2 + 3]).astype(np.float32)
    )


@pytest.mark.feature("simdgroup", "several simdgroups multiply at once")
def test_tiled_product() -> None:
    source = """
kernel void gemm(device const half* a [[buffer(0)]], device const half* b [[buffer(1)]], device float* c [[buffer(2)]],
                 uint2 group [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]]) {
  uint row = group.y * 16 + simd / 2 * 8, column = group.x * 16 + simd % 2 * 8;
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0);
  for (uint k = 0; k < 40; k += 8) {
    simdgroup_half8x8 x, y;
    simdgroup_load(x, a, 40, ulong2(k, row));
    simdgroup_load(y, b + k * 48 + column, 48);
    simdgroup_multiply_accumulate(sum, x, y, sum);
  }
  simdgroup_store(sum, c + row * 48 + column, 48);
}"""
    a, b, c = integers(4, (32, 40), "half"), integers(5, (40, 48), "half"), np.zeros((32, 48), np.float32)
    metalcore.Library(HEADER + source).function("gemm")(a, b, c, threadgroups=(3, 2, 1), group_size=(128, 1, 1))
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
