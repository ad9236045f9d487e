"""32-bit indices are exact modulo 2^32, however often they wrap around inside a simdgroup, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

MODES = ("checked", "sanitize", "fast")
M32 = np.uint64(0xFFFFFFFF)


def run(body: str, mode: str, x: np.ndarray, threads: int = 64, group: int = 32, **more: object) -> np.ndarray:
    source = f"""kernel void k(device uint* o, device const uint* x, constant ulong& q, constant long& n,
        uint i [[thread_position_in_grid]], uint l [[thread_position_in_threadgroup]]) {{ {body} }}"""
    o = np.full(64, 0xAAAAAAAA, np.uint32)
    values = {"q": 0, "n": 0, **more}
    with metalcore.mode(mode):
        metalcore.Library(source).function("k")(o, x, values["q"], values["n"], threads=threads, group_size=group)
    return o


X = np.arange(1000, 1100, dtype=np.uint32)

# Index expressions, which threads read, and the index that thread i then reads.
INSIDE = {
    "four turns": ("x[i * 0x40000001u & 0xFFFFFFFFu]", "(i & 3u) == 0u", lambda i: i),
    "sixteen turns": ("x[i * 0x10000001u]", "(i & 15u) == 0u", lambda i: i),
    "half a turn": ("x[i * 0x80000001u]", "(i & 1u) == 0u", lambda i: i),
    "shifted back": ("x[(i * 0x10000000u) >> 28]", "true", lambda i: i & 15),
    "downwards": ("x[(63u - i) * 0xC0000001u]", "((63u - i) & 3u) == 0u", lambda i: 63 - i),
    "signed": ("x[int(i * 0x40000001u)]", "(i & 3u) == 0u", lambda i: i),
    "short": ("x[ushort(i * 4097u)  & 63]", "true", lambda i: i & 63),
    "char": ("x[uchar(i * 65u) & 31]", "true", lambda i: i & 31),
    "around zero": ("x[i - 5u]", "i >= 5u", lambda i: i - 5),
    "around zero, 64 bits": ("x[(ulong)(i - 5u) - 0xFFFFFFFBul]", "i < 5u", lambda i: i),
    "64 bits, a number of the host": ("x[(ulong)(i - 5u) - q]", "i < 5u", lambda i: i),
    "64 bits, a high half": ("x[(ulong)(i - 5u) + ((q + 4) << 32) + 8ul]", "i < 5u", lambda i: i + 3),
    "64 bits, a high half of 32 bits": (
        "x[(ulong)(i - 5u) + ((ulong)uint(q + 4) << 32) + 8ul]",
        "i < 5u",
        lambda i: i + 3,
    ),
    "64 bits, product": ("x[((ulong)(i - 5u) * 2 - 0x1FFFFFFF6ul)]", "i < 5u", lambda i: 2 * i),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(INSIDE))
@pytest.mark.feature("language", "32-bit indices that wrap around, exact modulo 2^32")
def test_an_index_that_wraps_reads_its_element(name: str, mode: str) -> None:
    index, condition, exact = INSIDE[name]
    found = run(f"if ({condition}) o[i] = {index};", mode, X, q=0xFFFFFFFB)
    again = run(f"o[i] = ({condition}) ? 1 : 0;", mode, X)
    expected = np.where(again == 1, X[[exact(i) if again[i] == 1 else 0 for i in range(64)]], 0xAAAAAAAA)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shift", [(28, 24), (31, 2), (27, 27), (30, 31)])
def test_positions_shifted_out_and_back_have_lost_their_high_bits(shift: tuple[int, int], mode: str) -> None:
    up, down = shift
    source = f"""kernel void k(device uint* o, device uint* p, uint l [[thread_position_in_threadgroup]]) {{
      uint h = l << {up}; p[l] = h; o[l] = h >> {down}; o[l + 64] = h / {1 << down}u; }}"""
    o, p = np.zeros(128, np.uint32), np.zeros(64, np.uint32)
    with metalcore.mode(mode):
        metalcore.Library(source).function("k")(o, p, threads=64, group_size=64)
    exact = [((i << up) & 0xFFFFFFFF) >> down for i in range(64)]
    assert o.tolist() == exact * 2 and p.tolist() == [(i << up) & 0xFFFFFFFF for i in range(64)]


@pytest.mark.parametrize("mode", MODES)
def test_a_store_at_an_index_that_wraps_writes_its_element(mode: str) -> None:
    found = run("if ((i & 3u) == 0u) o[i * 0x40000001u] = x[i];", mode, X)
    assert found.tolist() == [int(X[i]) if i % 4 == 0 else 0xAAAAAAAA for i in range(64)]


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_that_starts_with_an_index_below_zero(mode: str) -> None:
    body = "uint s = 0; if (i >= 5u) for (ulong j = (ulong)(i - 5u); j < 64; j += 16) s += x[j]; o[i] = s;"
    expected = [int(X[np.arange(i - 5, 64, 16)].sum()) if i >= 5 else 0 for i in range(64)]
    assert run(body, mode, X).tolist() == expected


@pytest.mark.parametrize("mode", MODES)
def test_comparisons_of_an_index_that_wrapped_are_those_of_the_number(mode: str) -> None:
    signed = run("long k = (long)(i - 5u); if (k < n) o[i] = 1; else o[i] = 0;", mode, X, n=100)
    assert signed.tolist() == [0] * 5 + [1] * 59
    wide = run("ulong k = (ulong)(i - 5u); if (k < (ulong)n) o[i] = 1; else o[i] = 0;", mode, X, n=1 << 33)
    assert wide.tolist() == [1] * 64


@pytest.mark.parametrize(
    "body",
    [
        "o[i] = (x + 32)[i - 5u];",
        "device const uint* p = x + (q + 32); o[i] = p[i - 5u];",
        "device uint* p = o + 32; p[i - 5u] = 1;",
        "o[i] = x[(ulong)(i - 5u) + q + 40];",
        "uint s = 0; for (uint j = i - 5u, k = 0; k < 2; k++, j += 2) s += (x + 32)[j]; o[i] = s;",
        "o[i] = (x + 32)[int(i * 0x10000001u)];",
    ],
)
def test_an_index_below_zero_is_out_of_bounds_though_memory_lies_there(body: str) -> None:
    with pytest.raises(KernelFault, match="out of bounds"):
        run(body, "checked", X)
    source = f"""kernel void k(device uint* o, device const uint* x, constant ulong& q,
        uint i [[thread_position_in_grid]]) {{ {body} }}"""
    with metalcore.mode("sanitize") as report:
        metalcore.Library(source).function("k")(np.zeros(128, np.uint32), X, 0, threads=64, group_size=32)
    assert any(finding.kind == "out-of-bounds" for finding in report.findings)


@pytest.mark.parametrize("mode", MODES)
def test_tiles_whose_rows_wrap(mode: str) -> None:
    """A 16 x 16 group: an address is plain within eight lanes only."""
    source = """kernel void k(device uint* o, device const uint* x, constant uint& pitch,
        uint2 p [[thread_position_in_grid]]) {
      uint at = p.y * pitch + p.x; o[p.y * 16 + p.x] = at < 256u ? x[at] : 7; }"""
    x = np.arange(256, dtype=np.uint32) + 10
    o = np.zeros(256, np.uint32)
    for pitch in (16, 0xFFFFFFF4, 0x10000004, 0x80000010):
        with metalcore.mode(mode):
            metalcore.Library(source).function("k")(o, x, pitch, threads=(16, 16), group_size=(16, 16))
        at = (np.arange(16, dtype=np.uint64)[:, None] * pitch + np.arange(16, dtype=np.uint64)) & M32
        expected = np.where(at < 256, x[np.minimum(at, 255).astype(int)], 7)
        assert (o.reshape(16, 16) == expected).all()


@pytest.mark.parametrize("mode", ["checked", "fast"])  # the sanitizer's records would take as much memory again
def test_in_a_buffer_of_more_than_4_gib_a_wrapped_index_is_inside(mode: str) -> None:
    x = np.zeros((1 << 32) + 4096, np.uint8)  # pages that are never touched take no memory
    x[(1 << 32) - 5 : 1 << 32] = np.arange(1, 6)
    x[:40] = np.arange(40) + 100
    source = """kernel void k(device uint* o, device const uchar* x, uint i [[thread_position_in_grid]]) {
      o[i] = x[i - 5u]; }"""
    o = np.zeros(32, np.uint32)
    with metalcore.mode(mode):
        metalcore.Library(source).function("k")(o, x, threads=32)
    assert o.tolist() == [1, 2, 3, 4, 5, *range(100, 127)]
