"""Private arrays: each lane has its own, whatever the sizes and alignments that it is touched with."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault, LaunchError

HEAD = """kernel void k(device uint* o, device const uint* b, constant ulong& q,
    uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) """
# Other than interleaved: the array is also touched byte by byte.
MIXED = "thread uint a[4]; thread uchar* p = (thread uchar*)a; for (uint j = 0; j < 16; j++) p[j] = uchar(b[j] + l);"
ROWS = "thread uint a[4]; for (uint j = 0; j < 4; j++) a[j] = b[j] + l;"
B = np.arange(64, dtype=np.uint32)


def run(body: str, mode: str = "checked", b: np.ndarray = B, q: int = 0, group: int = 32) -> np.ndarray:
    o = np.zeros(64, np.uint32)
    with metalcore.mode(mode):
        metalcore.Library(HEAD + "{" + body + "}").function("k")(o, b, q, threads=64, group_size=group)
    return o


def with_words(**words: int) -> np.ndarray:
    b = B.copy()
    for at, value in words.items():
        b[int(at[1:])] = value
    return b


@pytest.mark.parametrize("start", [MIXED, ROWS])
@pytest.mark.parametrize("index", ["b[20] & 127u", "(b[20] + l) & 127u", "b[20]", "q + b[20]", "b[20] - 8u"])
@pytest.mark.feature("language", "private arrays: an access past a lane's own array is a fault")
def test_past_the_end_is_a_fault_for_every_lane(start: str, index: str) -> None:
    for value in (4, 5, 31, 60, 95):
        for access in (f"o[i] = a[{index}];", f"a[{index}] = 7; o[i] = a[b[1] & 3];"):
            with pytest.raises(KernelFault, match="private array 'a'") as caught:
                run(f"{start} {access}", b=with_words(_20=value))
            assert "31 more" in str(caught.value) or "63 more" in str(caught.value)


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
@pytest.mark.parametrize("start", [MIXED, ROWS])
def test_inside_each_lane_has_its_own(start: str, mode: str) -> None:
    lanes = np.arange(64, dtype=np.uint32) % 32
    values = [(B[:16].astype(np.uint8) + lanes.astype(np.uint8)[:, None]).view(np.uint32), B[:4] + lanes[:, None]]
    own = values[start is ROWS]
    found = run(f"{start} a[(b[20] + l) & 3u] ^= 0x55u; o[i] = a[(b[21] + l * 3u) & 3u];", mode)
    at, other = (20 + lanes) & 3, (21 + lanes * 3) & 3
    expected = own[np.arange(64), other] ^ np.where(at == other, 0x55, 0).astype(np.uint32)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("place", ["b[0]", "b[20] & 1u", "0", "1"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_read_wider_than_its_array_leaves_the_array_as_it_is(size: int, place: str) -> None:
    source = HEAD + f"""{{
      uchar a[{size}]; for (uint j = 0; j < {size}u; j++) a[j] = uchar(b[j]); a[b[20] >> 5] = uchar(b[7] + l);
      const uint wide = uint(*(thread const ulong*)(a + ({place})));
      o[i] = wide * 1000u + a[0]; }}"""
    o = np.zeros(64, np.uint32)
    with pytest.raises(KernelFault, match="private array 'a'"):
        metalcore.Library(source).function("k")(o, B, 0, threads=64, group_size=32)
    assert o.tolist() == [7 + i % 32 for i in range(64)]


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_a_view_that_is_not_aligned_reads_its_own_bytes(mode: str) -> None:
    body = ROWS + " o[i] = *(thread uint*)((thread uchar*)a + (b[21] & 15u)) + a[b[6] & 3];"
    if mode != "fast":
        words = (B[:4] + np.arange(32, dtype=np.uint32)[:, None]).copy()
        data = words.view(np.uint8)
        for shift in (1, 2, 3, 7, 9, 11):
            read = data[:, shift : shift + 4].copy().view(np.uint32)[:, 0]
            found = run(body, mode, with_words(_21=shift))
            assert found[:32].tolist() == (read + words[:, 2]).tolist()
    if mode == "checked":
        for shift in (13, 14, 15):
            with pytest.raises(KernelFault, match="private array"):
                run(body, mode, with_words(_21=shift))


@pytest.mark.parametrize("q", [1 << 57, 1 << 59, (1 << 62) + (1 << 59), (1 << 64) - (1 << 59), 1 << 40])
@pytest.mark.parametrize("start", [MIXED, ROWS])
def test_a_huge_index_is_outside(start: str, q: int) -> None:
    for access in ("o[i] = a[q];", "o[i] = a[q + l % 2];", "a[q] = 1; o[i] = a[b[1]];"):
        if (q * 4) % (1 << 64) == 0:
            continue  # the address itself wraps around to the array
        with pytest.raises(KernelFault, match="private array"):
            run(f"{start} {access}", q=q)


def test_two_arrays_that_one_pointer_may_reach() -> None:
    body = """thread uint a[4]; thread uint c[6]; for (uint j = 0; j < 6; j++) { a[j & 3] = j + l; c[j] = 100 + j + l; }
      thread uint* p = (b[20] & 1u) ? a : c; thread uint* r = (l & 1u) ? a : c; o[i] = p[b[21]] + r[b[22]];"""
    lane = np.arange(32)
    found = run(body, b=with_words(_20=0, _21=5, _22=1))
    assert found[:32].tolist() == [105 + n + (5 + n if n % 2 else 101 + n) for n in lane]
    for words in ({"_20": 1, "_21": 4, "_22": 0}, {"_20": 0, "_21": 6, "_22": 0}, {"_20": 0, "_21": 0, "_22": 4}):
        with pytest.raises(KernelFault):
            run(body, b=with_words(**words))


@pytest.mark.parametrize("barrier", ["", "threadgroup_barrier(mem_flags::mem_none);"])
@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.feature("language", "private arrays of up to 256 KiB a thread")
def test_large_arrays(barrier: str, group: int) -> None:
    source = (
        """#include <metal_stdlib>
    using namespace metal;
    """
        + HEAD
    )
    count = (256 << 10) // 4
    body = f"uint a[{count}]; a[b[20]] = i; a[b[21]] = 2 * i; {barrier} o[i] = a[b[20]] + a[b[21]];"
    kernel = metalcore.Library(source + "{" + body + "}").function("k")
    o = np.zeros(64, np.uint32)
    kernel(o, with_words(_20=0, _21=count - 1), 0, threads=64, group_size=group)
    assert o.tolist() == [3 * i for i in range(64)]
    with pytest.raises(KernelFault, match="private array 'a'"):
        kernel(o, with_words(_20=0, _21=count), 0, threads=64, group_size=group)
    larger = metalcore.Library(source + "{" + body.replace(f"[{count}]", f"[{count + 1}]") + "}").function("k")
    with pytest.raises(LaunchError, match="262,148 bytes, and the limit is 262,144"):
        larger(o, B, 0, threads=64, group_size=group)


def test_a_thread_with_a_small_stack_runs_large_arrays() -> None:
    """The kernel's arrays lie on a stack of the engine's."""
    found: list[np.ndarray] = []
    body = "uint a[30000]; for (uint j = 0; j < 30000; j += 1000) a[j] = j + i; o[i] = a[b[20] * 1000];"
    before, threads = threading.stack_size(256 << 10), metalcore.get_num_threads()
    try:
        thread = threading.Thread(target=lambda: found.append(run(body)))
        metalcore.set_num_threads(1)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        metalcore.set_num_threads(threads)
    assert found[0].tolist() == [20000 + i for i in range(64)]


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_a_wide_index_leads_back_from_the_middle(mode: str) -> None:
    source = HEAD + """{
      uint a[33]; for (uint j = 0; j < 33; j++) a[j] = b[j];
      if (b[l + 1] > 0) o[i] = (a + 16)[ulong(long(int(i & 3u))) | ulong(long(int((l >> 5) - (l >> 1))))];
      if (b[l] == 0) o[i + 32] = a[ulong(l) << 3];
      o[i + 32] += a[b[1] & 1u]; }"""
    o, lanes = np.zeros(64, np.uint32), np.arange(32)
    with metalcore.mode(mode):
        metalcore.Library(source).function("k")(o, B, 0, threads=32, group_size=32)
    assert o[:32].tolist() == (16 + ((lanes & 3) | ((lanes >> 5) - (lanes >> 1)))).tolist()
    assert o[32:].tolist() == [1] * 32


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
def test_structured_bindings_to_several_arrays(mode: str) -> None:
    body = "uint a[2] = {b[1], b[2]}, d[2] = {b[3], b[4]}; auto& [x, y] = a; auto& [z, w] = d; w += l; o[i] = x + d[1];"
    assert run(body, mode).tolist() == (5 + np.arange(64) % 32).tolist()


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            "uchar a[7]; thread ushort* p = (thread ushort*)a; for (int j = 0; j < 3; j++) p[b[0] + j] = 1; "
            "if (l < 10) o[i] = p[b[0] + 3]; else o[i] = p[b[1]];",
            [0] * 10 + [1] * 22,
        ),
        ("uchar a[3]; thread uint* p = (thread uint*)a; p[b[0]] = 1 + l; o[i] = 5 + p[b[0]];", [5] * 32),
    ],
)
def test_a_view_whose_last_element_reaches_past_the_array(body: str, expected: list[int]) -> None:
    with pytest.raises(KernelFault, match="out of bounds"):
        run(body)
    assert run(body, "sanitize").tolist() == expected * 2
