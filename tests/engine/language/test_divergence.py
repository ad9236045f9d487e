"""Threads of a simdgroup that go different ways: each keeps its own values, and they meet again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.language.helpers import feature, per_thread

STRAIGHT = [
    feature("lockstep", "divergent if", "int x = 1; if (tid < 2) x = 5; out[gid] = x;", [5, 5, 1, 1]),
    feature("lockstep", "divergent if and else", "if (tid & 1) out[gid] = 1; else out[gid] = 2;", [2, 1, 2, 1]),
    feature(
        "lockstep",
        "nested divergence",
        "int x = 0; if (tid > 0) { if (tid > 1) { if (tid > 2) x = 3; else x = 2; } else x = 1; x += 10; } "
        "out[gid] = x;",
        [0, 11, 12, 13],
    ),
    feature(
        "lockstep",
        "divergent loops",
        "int x = 0; for (uint i = 0; i < tid; ++i) x += int(i) + 1; out[gid] = x;",
        [0, 1, 3, 6],
    ),
    feature(
        "lockstep",
        "divergent while loops",
        "uint x = tid + 1; int n = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; ++n; } out[gid] = n;",
        [0, 1, 7, 2],
    ),
    feature(
        "lockstep", "do-while loops", "int x = 0; do { x += 2; } while (x < int(tid) * 2); out[gid] = x;", [2, 2, 4, 6]
    ),
    feature(
        "lockstep",
        "divergent loops with break",
        "int x = 0; for (int i = 0; i < 10; ++i) { if (i == int(tid)) break; x += 1; } out[gid] = x;",
        [0, 1, 2, 3],
    ),
    feature(
        "lockstep",
        "divergent loops with continue",
        "int x = 0; for (int i = 0; i < 4; ++i) { if (i == int(tid)) continue; x += i; } out[gid] = x;",
        [6, 5, 4, 3],
    ),
    feature(
        "lockstep",
        "break and continue in nested loops",
        "int x = 0; for (int i = 0; i < 3; ++i) { for (int j = 0; j < 3; ++j) { if (j == int(tid)) break;"
        " if (i == j) continue; x += 1; } if (x > 3) break; } out[gid] = x;",
        [0, 2, 4, 4],
    ),
    feature(
        "lockstep",
        "loops that never end but by break",
        "int x = 0; while (true) { x += 3; if (x > int(tid) * 4) break; } out[gid] = x;",
        [3, 6, 9, 15],
    ),
    feature(
        "lockstep",
        "switch",
        "int x; switch (tid) { case 0: x = 5; break; case 2: x = 6; break; default: x = 7; } out[gid] = x;",
        [5, 7, 6, 7],
    ),
    feature(
        "lockstep",
        "switch with fallthrough",
        "int x = 0; switch (tid) { case 0: x += 1; case 1: x += 10; break; case 2: x += 100; default: x += 1000; }"
        " out[gid] = x;",
        [11, 10, 1100, 1000],
    ),
    feature(
        "lockstep",
        "default in the middle of a switch",
        "int x = 0; switch (tid) { case 3: x = 1; break; default: x = 2; case 1: x += 10; } out[gid] = x;",
        [12, 10, 12, 1],
    ),
    feature(
        "lockstep",
        "switch in a loop with continue",
        "int x = 0; for (int i = 0; i < 3; ++i) { switch ((tid + i) & 3) { case 0: continue; case 1: break; "
        "default: x += 5; }"
        " x += 1; } out[gid] = x;",
        [7, 13, 12, 7],
    ),
    feature(
        "lockstep",
        "early return of some threads",
        "if (tid == 1) return; out[gid] = int(tid);",
        [0, -7, 2, 3],
    ),
    feature(
        "lockstep",
        "return inside a divergent loop",
        "for (int i = 0; i < 8; ++i) { if (i == int(tid) * 2) { out[gid] = i + 100; return; } } out[gid] = 1;",
        [100, 102, 104, 106],
    ),
    feature(
        "lockstep",
        "short circuit of && and ||",
        "int d = int(tid); out[gid] = (d != 0 && 12 / d > 5) || d == 3 ? 1 : 0;",
        [0, 1, 1, 1],
    ),
    feature(
        "lockstep",
        "divisors of idle threads are harmless",
        "int d = int(tid) - 1; int x = -5; if (d != 0) x = 100 / d; out[gid] = x;",
        [-100, -5, 100, 50],
    ),
    feature(
        "lockstep",
        "loops whose bound changes inside",
        "int n = int(tid), x = 0; for (int i = 0; i < n; ++i) { if (x == 2) n += 1; x += 1; } out[gid] = x;",
        [0, 1, 2, 4],
    ),
]


@pytest.mark.parametrize(("body", "expected"), STRAIGHT)
def test_divergence(body: str, expected: list[Any]) -> None:
    assert per_thread(body) == expected


SIMD = [
    feature(
        "lockstep",
        "simd functions see active threads only",
        "int x = 0; if (tid < 3) x = simd_sum(1); out[gid] = x;",
        [3, 3, 3, 0],
    ),
    feature(
        "lockstep",
        "simd functions in both branches",
        "int x; if (tid & 1) x = simd_sum(int(tid)); else x = simd_sum(int(tid) + 10); out[gid] = x;",
        [22, 4, 22, 4],
    ),
    feature(
        "lockstep",
        "simd functions in a loop that threads leave",
        "int x = 0; for (uint i = 0; i < tid; ++i) x += simd_sum(1); out[gid] = x;",
        [0, 3, 5, 6],
    ),
    feature(
        "lockstep",
        "simd functions after continue",
        "int x = 0; for (uint i = 0; i < 2; ++i) { if (i == tid) continue; x += simd_sum(1); } out[gid] = x;",
        [3, 3, 6, 6],
    ),
    feature(
        "lockstep",
        "simd functions after a loop with breaks see all again",
        "int x = 0; for (int i = 0; i < 9; ++i) { if (i == int(tid)) break; x += 1; } out[gid] = simd_sum(x);",
        [6, 6, 6, 6],
    ),
    feature(
        "lockstep",
        "simd functions after an early return",
        "if (tid == 2) return; out[gid] = simd_sum(1);",
        [3, 3, -7, 3],
    ),
    feature(
        "lockstep",
        "simd functions in switch cases",
        "int x = 0; switch (tid) { case 0: x = 100; case 1: x += simd_sum(1); break; "
        "default: x = simd_sum(10); } out[gid] = x;",
        [102, 2, 20, 20],
    ),
    feature(
        "lockstep",
        "votes under divergence",
        "int x = 0; if (tid > 1) x = simd_all(tid > 1) ? 1 : 0; out[gid] = x + (simd_any(tid == 3) ? 10 : 0);",
        [10, 10, 11, 11],
    ),
    feature(
        "lockstep",
        "first active thread",
        "int x = -1; if (tid > 1) x = int(simd_broadcast_first(tid)); out[gid] = simd_is_first() ? x - 100 : x;",
        [-101, -1, 2, 2],
    ),
    feature(
        "lockstep",
        "shuffles between active threads",
        "int x = 0; if (tid < 2) x = int(simd_shuffle_xor(tid + 5, ushort(1))); out[gid] = x;",
        [6, 5, 0, 0],
    ),
    feature(
        "lockstep",
        "prefix sums over active threads",
        "int x = 0; if (tid != 1) x = simd_prefix_inclusive_sum(int(tid) + 1); out[gid] = x;",
        [1, 0, 4, 8],
    ),
]


@pytest.mark.parametrize(("body", "expected"), SIMD)
def test_simd_functions_under_divergence(body: str, expected: list[Any]) -> None:
    assert per_thread(body) == expected


@pytest.mark.feature("lockstep", "partial simdgroups")
@pytest.mark.parametrize("threads", [1, 28, 31, 32, 33, 65, 100])
def test_partial_simdgroups(threads: int) -> None:
    """Missing threads add nothing."""
    out = per_thread("out[gid] = simd_sum(1) * 100 + simd_max(int(lane));", threads=threads, group_size=64)
    sizes = []
    for start in range(0, threads, 64):
        group = min(64, threads - start)
        sizes += [min(32, group - first) for first in range(0, group, 32)]
    assert out == [n * 100 + n - 1 for n in sizes for _ in range(n)]


@pytest.mark.feature("lockstep", "uniform branches and loops")
def test_uniform_control_flow() -> None:
    body = "int x = 0; for (uint i = 0; i <= group; ++i) x += 2; if (group == 1) x += 100; out[gid] = x;"
    assert per_thread(body, threads=6, group_size=2) == [2, 2, 104, 104, 6, 6]


@pytest.mark.feature("lockstep", "a value that leaves a divergent loop keeps each thread's own")
def test_values_that_leave_a_loop() -> None:
    body = "uint i = 0; uint last = 99; for (; i < tid * 2; ++i) last = i * 3; out[gid] = int(i * 1000 + last);"
    assert per_thread(body) == [99, 2003, 4009, 6015]
