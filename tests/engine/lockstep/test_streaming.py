"""Stores past the cache: which stores, and the same results wherever the memory begins."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.engine.runtime.native_library import runtime_library

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def streams(body: str, *, checked: bool = False) -> bool:
    source = f"""{HEAD}
    kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                  device atomic_uint* n [[buffer(2)]], constant uint& width [[buffer(3)]],
                  uint i [[thread_position_in_grid]]) {{ {body} }}"""
    unit = make_unit(source, path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    options = {"layout": "line", "single": False, "checked": checked, "width": llvm.vector_width()}
    return "!nontemporal" in vectorise(scalar, **options).ir  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[i] = x[i];", True),
        ("((device float4*)y)[i] = ((device const float4*)x)[i] + 1;", True),
        ("y[i] += x[i];", False),  # what is read should be near
        ("y[i] = x[i]; y[i + width] = -x[i];", False),  # rows in turns
        ("y[i] = x[i]; atomic_fetch_add_explicit(n, 1, memory_order_relaxed);", False),  # someone may wait for y
        ("y[i] = x[i]; atomic_store_explicit(n, 1, memory_order_relaxed);", False),
        ("y[i] = x[i]; atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst);", False),
        ("device float* p = width ? y : (device float*)n; p[i] = x[i] + y[0];", False),  # it may be y, which is read
        ("y[i * width] = x[i];", False),  # no row
    ],
)
def test_which_stores(body: str, expected: bool) -> None:
    assert streams(body) is expected


def test_not_where_accesses_are_checked() -> None:
    assert not streams("y[i] = x[i];", checked=True)


@pytest.fixture(params=[0, 1 << 62], ids=["always", "never"])
def threshold(request: pytest.FixtureRequest) -> Iterator[None]:
    """Launches of any size write past the cache, or none does."""
    limit = ctypes.c_uint64.in_dll(runtime_library(), "mc_stream_from")
    before, limit.value = limit.value, request.param
    yield
    limit.value = before


KERNELS = """
template <typename T>
[[kernel]] void twice(device const T* x [[buffer(0)]], device T* y [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) { y[i] = x[i] * T(2); }
template [[host_name("float")]] [[kernel]] void twice<float>(device const float*, device float*, uint);
template [[host_name("half")]] [[kernel]] void twice<half>(device const half*, device half*, uint);
template [[host_name("packed_float4")]] [[kernel]] void twice<packed_float4>(
    device const packed_float4*, device packed_float4*, uint);
template [[host_name("packed_half2")]] [[kernel]] void twice<packed_half2>(
    device const packed_half2*, device packed_half2*, uint);
template [[host_name("packed_half3")]] [[kernel]] void twice<packed_half3>(
    device const packed_half3*, device packed_half3*, uint);
template [[host_name("packed_float3")]] [[kernel]] void twice<packed_float3>(
    device const packed_float3*, device packed_float3*, uint);
[[kernel]] void gaps(device const float* x [[buffer(0)]], device bfloat* y [[buffer(1)]],
                     uint i [[thread_index_in_simdgroup]]) {
  y[i + (i >> 3 & i & 1)] = bfloat(x[i] * 2);
}
[[kernel]] void tile(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                     constant uint& pitch [[buffer(2)]], uint2 at [[thread_position_in_grid]]) {
  y[at.y * pitch + at.x] = x[at.y * pitch + at.x] * 2;
}
"""


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("offset", [0, 1, 4, 8])
@pytest.mark.parametrize(
    ("name", "dtype", "each"),
    [
        *[("float", "f4", 1), ("packed_float3", "f4", 3), ("packed_float4", "f4", 4)],
        *[("half", "f2", 1), ("packed_half2", "f2", 2), ("packed_half3", "f2", 3)],
    ],
)
def test_results_do_not_depend_on_where_memory_begins(name: str, dtype: str, each: int, offset: int) -> None:
    twice = metalcore.Library(HEAD + KERNELS).function(name)
    for count in (1, 31, 33, 65, 1009, 4096):
        x = (np.arange(count * each) % 500).astype(dtype)
        room = np.full(count * each + 128, -1, dtype)
        skipped = -room.ctypes.data % 64 // room.itemsize + offset  # from the next line of the cache
        y = room[skipped : skipped + count * each]
        with metalcore.mode("fast"):
            twice(x, y, threads=count, group_size=64)
        np.testing.assert_array_equal(y, x * 2)
        assert (room[:skipped] == -1).all() and (room[skipped + count * each :] == -1).all()


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("group", [(8, 8), (16, 16), (32, 2), (64, 4)])
@pytest.mark.parametrize("pitch", [64, 72, 65])
def test_rows_of_a_tile_that_lie_apart(group: tuple[int, int], pitch: int) -> None:
    """Each row of a tile begins somewhere else, whatever the first one's address is."""
    tile = metalcore.Library(HEAD + KERNELS).function("tile")
    x = np.arange(32 * pitch, dtype=np.float32)
    room = np.full(x.size + 16, -1, np.float32)
    skipped = -room.ctypes.data % 64 // room.itemsize
    y = room[skipped : skipped + x.size]
    with metalcore.mode("fast"):
        tile(x, y, np.uint32(pitch), threads=(64, 32), group_size=group)
    expected = np.where(np.arange(x.size) % pitch < 64, x * 2, -1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.usefixtures("threshold")
def test_a_chunk_that_only_begins_beside_the_one_before() -> None:
    """Lanes 8 to 15 write every second place twice, from the one behind lane 7's on: no pair of rows."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    gaps = metalcore.Library(HEAD + KERNELS).function("gaps")
    lane = np.arange(32)
    place = lane + (lane >> 3 & lane & 1)
    y = np.zeros(64, ml_dtypes.bfloat16)
    with metalcore.mode("fast"):
        gaps(lane.astype(np.float32), y, threads=32, group_size=32)
    expected = np.zeros(64, np.float32)
    for i in lane:  # where two lanes write to one place the last one wins
        expected[place[i]] = 2 * i
    np.testing.assert_array_equal(y.astype(np.float32), expected)
