"""Barriers where simdgroups take turns: exact values, and which kernels are cut."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import llvm
from metalcore.errors import LaunchError

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
IDS = (
    "uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], "
    "uint sg [[simdgroup_index_in_threadgroup]], uint sgs [[simdgroups_per_threadgroup]], "
    "uint n [[threads_per_threadgroup]], uint g [[threadgroup_position_in_grid]]"
)
MEET = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def source(body: str) -> str:
    return (
        f"{HEAD}kernel void k(device const int* x [[buffer(0)]], device int* y [[buffer(1)]], "
        f"constant int& rounds [[buffer(2)]], {IDS}) {{ threadgroup int t[1024]; {body} }}"
    )


def run(body: str, threads: int = 256, rounds: int = 5, groups: int = 3, mode: str = "checked") -> np.ndarray:
    x = np.arange(groups * threads, dtype=np.int32) * 7 % 101
    y = np.zeros(groups * threads, np.int32)
    with metalcore.mode(mode):
        metalcore.Library(source(body)).function("k")(x, y, rounds, threadgroups=groups, group_size=threads)
    return y.reshape(groups, threads)


def inputs(threads: int = 256, groups: int = 3) -> np.ndarray:
    return (np.arange(groups * threads, dtype=np.int64) * 7 % 101).reshape(groups, threads)


def code(body: str, max_threads: int | None = None) -> str:
    unit = make_unit(source(body), path=None, include_dirs=[], defines={}, math_mode="safe")
    scalar = llvm.optimise_scalar(lower(unit, "k", None).ir)
    given = {"layout": "line", "single": False, "checked": True, "width": 8, "tail": False, "max_threads": max_threads}
    return vectorise(scalar, **given).ir  # type: ignore[arg-type]


def is_cut(body: str, max_threads: int | None = None) -> bool:
    written = code(body, max_threads)
    assert ("presplitcoroutine" in written) != ("%turn.end" in written)
    return "%turn.end" in written


def places(body: str) -> int:
    """From how many barriers simdgroups go on."""
    return len(re.findall(r"^cut\.\d+:", code(body), re.MULTILINE))


REVERSED = f"t[i] = x[g * n + i]; {MEET} y[g * n + i] = t[n - 1 - i];"
# Each thread adds its neighbour's number, round after round: two barriers in a loop, a sum that lives across both.
SHIFTED = f"""int s = x[g * n + i];
  for (int r = 0; r < rounds; ++r) {{ t[i] = s; {MEET} s += t[(i + 33) % n]; {MEET} }}
  y[g * n + i] = s;"""
# A sum over the threadgroup: the part between the barriers is the same for all simdgroups.
TOTAL = f"""int s = simd_sum(x[g * n + i]); if (lane == 0) t[sg] = s; {MEET}
  s = simd_sum(lane < sgs ? t[lane] : 0); {MEET}
  y[g * n + i] = s + int(i);"""
# The same in a loop, with a carry.
CARRIED = f"""int carry = 0;
  for (int r = 0; r < rounds; ++r) {{
    int s = simd_sum(x[g * n + i] + r); if (lane == 0) t[sg] = s; {MEET}
    s = simd_sum(lane < sgs ? t[lane] : 0); {MEET}
    carry = carry * 3 + s; }}
  y[g * n + i] = carry + int(sg);"""
# Lanes and simdgroups go different ways between the barriers.
APART_BETWEEN = f"""const int m = x[g * n + i]; int s = m;
  if (m % 3 == 0) {{ for (int r = 0; r < m; ++r) s += r; }} else if (sg == 1) s = -s;
  t[i] = s; {MEET} bool is_odd = s % 2; int other = t[i ^ 32]; {MEET}
  t[i] = is_odd ? other : s; {MEET} y[g * n + i] = is_odd ? t[n - 1 - i] : s - other;"""
NESTED = f"""int s = 0;
  for (int a = 1; a <= rounds; ++a) {{
    for (int b = a; b > 0; --b) {{ t[i] = s + a * b; {MEET} s = t[(i + b) % n]; {MEET} }}
    s += a; }}
  y[g * n + i] = s;"""
# What is counted and what is chosen by it live across, in types of all sizes.
TYPES = f"""half h = half(x[g * n + i]) / 4; long w = long(x[g * n + i]) << 33; uchar c = uchar(x[g * n + i] * 3);
  bfloat f = bfloat(float(lane)); device const int* p = x + g * n + i; bool is_low = lane < sg;
  t[i] = int(i); {MEET} int other = t[n - 1 - i]; {MEET}
  y[g * n + i] = int(h * 4) + int(w >> 33) + c + int(float(f)) + *p + (is_low ? other : -other);"""
# Values that change places round a loop, one of them needed behind it, and the one before that.
PLACES = f"""int a = x[g * n + i], b = int(i), before = 0; const int kept = a * 3 + int(sg);
  for (int r = 0; r < rounds; ++r) {{
    t[i] = a; {MEET} const int c = t[n - 1 - i] + b; {MEET} before = a; a = b; b = c > 90 ? c - kept : a; }}
  y[g * n + i] = a * 7 + b * 5 + before * 3 + kept;"""
# The same value enters two loops and is read behind both.
TWICE = f"""const int m = x[g * n + i]; int a = m, b = m;
  for (int r = 0; r < rounds; ++r) {{ t[i] = a; {MEET} a = t[(i + 1) % n]; {MEET} }}
  for (int r = 1; r < rounds; ++r) {{ t[i] = b; {MEET} b = t[(i + 2) % n] + m; {MEET} }}
  y[g * n + i] = a - b * 2 + m * 3;"""
# A running sum over the threadgroup, step by step: of what follows the first barrier, the total is the same for all.
RUNNING = f"""int carry = 0, last = 0;
  for (int r = 0; r < rounds; ++r) {{
    int s = simd_prefix_inclusive_sum(x[g * n + i] + r); if (lane == 31) t[sg] = s; {MEET}
    const int part = lane < sgs ? t[lane] : 0; s += simd_sum(lane < sg ? part : 0); const int total = simd_sum(part);
    {MEET} last = carry + s; carry += total; }}
  y[g * n + i] = last;"""
# The same for all, and then something of each simdgroup's own, which the second barrier keeps from being overwritten.
OWN_READ = f"""int s = x[g * n + i];
  for (int r = 0; r < rounds; ++r) {{
    t[i] = s; {MEET} const int first = simd_sum(t[lane]); const int own = t[n - 1 - i]; {MEET} s = own * 3 + first; }}
  y[g * n + i] = s;"""
EARLY = f"if (rounds == 0) return; {SHIFTED}"
UNIFORM_CHOICE = f"if (rounds > 3) {{ {SHIFTED} }} else {{ {REVERSED} }}"
LOADED_BOUND = f"""int s = 0; const int most = x[g * n + 1] % 7;
  for (int r = 0; r < most; ++r) {{ t[i] = r + int(i); {MEET} s += t[i ^ 64]; {MEET} }} y[g * n + i] = s;"""
# Not cut: a loop whose length depends on the simdgroup, a barrier that some threads leave before.
BY_SIMDGROUP = f"""int s = 0; for (uint r = 0; r <= sg; ++r) {{ t[i] = int(r); {MEET} s += t[i]; }}
  for (uint r = sg; r < sgs; ++r) {{ {MEET} }} y[g * n + i] = s;"""


def shifted(threads: int, rounds: int) -> np.ndarray:
    s = inputs(threads)
    for _ in range(rounds):
        s = s + np.roll(s, -33, 1)
    return s


def wrapped(a: np.ndarray) -> np.ndarray:
    return (a % (1 << 32)).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("threads", [64, 256, 1024])
def test_values_that_live_across_barriers(threads: int, mode: str) -> None:
    x = inputs(threads)
    np.testing.assert_array_equal(run(REVERSED, threads, mode=mode), x[:, ::-1])
    np.testing.assert_array_equal(run(SHIFTED, threads, mode=mode), wrapped(shifted(threads, 5)))
    np.testing.assert_array_equal(run(EARLY, threads, 0, mode=mode), 0 * x)
    np.testing.assert_array_equal(run(UNIFORM_CHOICE, threads, 3, mode=mode), x[:, ::-1])
    np.testing.assert_array_equal(run(UNIFORM_CHOICE, threads, 4, mode=mode), wrapped(shifted(threads, 4)))


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("threads", [64, 320, 1024])
def test_work_that_is_the_same_for_all_is_done_once(threads: int, mode: str) -> None:
    x, at = inputs(threads), np.arange(threads)
    np.testing.assert_array_equal(run(TOTAL, threads, mode=mode), x.sum(1, keepdims=True) + at)
    carry = np.zeros((3, 1), np.int64)
    for r in range(5):
        carry = carry * 3 + (x + r).sum(1, keepdims=True)
    np.testing.assert_array_equal(run(CARRIED, threads, mode=mode), wrapped(carry + at // 32))


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("threads", [64, 320, 1024])
def test_what_is_the_same_for_all_is_computed_ahead(threads: int, mode: str) -> None:
    x = inputs(threads)
    carry, last = np.zeros((3, 1), np.int64), 0 * x
    for r in range(5):
        last = carry + (x + r).cumsum(1)
        carry = carry + (x + r).sum(1, keepdims=True)
    np.testing.assert_array_equal(run(RUNNING, threads, mode=mode), last)
    s = x
    for _ in range(4):
        s = s[:, ::-1] * 3 + s[:, :32].sum(1, keepdims=True)
    np.testing.assert_array_equal(run(OWN_READ, threads, 4, mode=mode), wrapped(s))


def test_barriers_that_are_added_and_taken_out() -> None:
    """Each is a place to go on from. Where the launch says the rounds, the first is behind that: it is read once."""
    assert places(REVERSED) == 1
    assert places(TOTAL) == 2
    assert places(CARRIED) == 3
    assert places(RUNNING) == 3, "the new one stands for the second of the loop"
    assert places(OWN_READ) == 4, "the second of the loop orders what each simdgroup reads"


@pytest.mark.parametrize("group", [(256, 1, 1), (64, 2, 2), (8, 16, 1), (16, 8, 1), (48, 2, 1)])
def test_positions_are_those_of_the_simdgroup_in_every_stretch(group: tuple[int, int, int]) -> None:
    body = f"""kernel void k(device int* y [[buffer(0)]], uint3 l [[thread_position_in_threadgroup]],
      uint3 at [[thread_position_in_grid]], uint i [[thread_index_in_threadgroup]],
      uint sg [[simdgroup_index_in_threadgroup]], uint q [[quadgroup_index_in_threadgroup]],
      uint3 n [[threads_per_threadgroup]]) {{
      threadgroup int t[1024]; t[i] = int(l.x + 100 * l.y + 10000 * l.z); {MEET}
      const int other = t[i ^ 31] * 2; {MEET} t[i] = other + int(sg); {MEET}
      y[at.x + n.x * (at.y + n.y * at.z)] = t[i] + int(7 * q + 3 * l.y + l.x) + int(i); }}"""
    w, h, d = group
    z, row, x = (axis.ravel() for axis in np.indices((d, h, w)))
    i = np.arange(w * h * d)
    t = x + 100 * row + 10000 * z
    for mode in ("fast", "checked"):
        y = np.zeros(w * h * d, np.int32)
        with metalcore.mode(mode):
            metalcore.Library(HEAD + body).function("k")(y, threadgroups=1, group_size=group)
        np.testing.assert_array_equal(y, t[i ^ 31] * 2 + i // 32 + 7 * (i // 4) + 3 * row + x + i)


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_lanes_that_part_between_barriers(mode: str) -> None:
    s = inputs()
    turned = np.where(np.arange(256) // 32 == 1, -s, s)
    s = np.where(s % 3 == 0, s + s * (s - 1) // 2, turned)
    other = s[:, np.arange(256) ^ 32]
    is_odd = np.fmod(s, 2) != 0
    t = np.where(is_odd, other, s)
    np.testing.assert_array_equal(run(APART_BETWEEN, mode=mode), np.where(is_odd, t[:, ::-1], s - other))


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_nested_loops_and_types(mode: str) -> None:
    s = np.zeros((3, 256), np.int64)
    for a in range(1, 6):
        for b in range(a, 0, -1):
            s = np.roll(s + a * b, -b, 1)
        s = s + a
    np.testing.assert_array_equal(run(NESTED, mode=mode), s)
    x, at = inputs(), np.arange(256)
    lane, sg, other = at % 32, at // 32, 255 - at
    expected = 3 * x + (3 * x) % 256 + lane + np.where(lane < sg, other, -other)
    np.testing.assert_array_equal(run(TYPES, mode=mode), expected)
    most = (x[:, 1] % 7)[:, None]
    sums = most * (at ^ 64) + most * (most - 1) // 2
    np.testing.assert_array_equal(run(LOADED_BOUND, mode=mode), sums)
    np.testing.assert_array_equal(run(BY_SIMDGROUP, mode=mode), np.broadcast_to(sg * (sg + 1) // 2, (3, 256)))


@pytest.mark.parametrize("group", [(32, 4, 2), (64, 2, 4), (96, 3, 1), (128, 1, 8), (32, 32, 1)])
def test_positions_in_rows(group: tuple[int, int, int]) -> None:
    """Between barriers, each simdgroup's position follows from that of the one before."""
    body = f"""kernel void k(device int* y [[buffer(0)]], uint3 l [[thread_position_in_threadgroup]],
      uint i [[thread_index_in_threadgroup]], uint3 n [[threads_per_threadgroup]]) {{
      threadgroup int t[1024]; int s = 0;
      for (int r = 0; r < 3; ++r) {{ t[i] = int(l.x + 100 * l.y + 10000 * l.z); {MEET} s += t[i ^ 32]; {MEET} }}
      y[i] = s + int(l.x + 2 * l.y + 3 * l.z); }}"""
    w, h, d = group
    y = np.zeros(w * h * d, np.int32)
    for mode in ("fast", "checked"):
        with metalcore.mode(mode):
            metalcore.Library(HEAD + body).function("k")(y, threadgroups=1, group_size=group)
        z, row, x = (axis.ravel() for axis in np.indices((d, h, w)))
        t = x + 100 * row + 10000 * z
        other = np.arange(w * h * d) ^ 32
        inside = other < w * h * d
        expected = 3 * t[np.where(inside, other, 0)] + x + 2 * row + 3 * z
        np.testing.assert_array_equal(y[inside], expected[inside])


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("rounds", [0, 1, 2, 6])
def test_values_that_change_places(rounds: int, mode: str) -> None:
    x, at = inputs(), np.arange(256)
    a, b, before, kept = x, np.broadcast_to(at, x.shape), 0 * x, x * 3 + at // 32
    for _ in range(rounds):
        c = a[:, ::-1] + b
        before, a = a, b
        b = np.where(c > 90, c - kept, a)
    np.testing.assert_array_equal(run(PLACES, rounds=rounds, mode=mode), a * 7 + b * 5 + before * 3 + kept)
    a, b = x, x
    for r in range(rounds):
        a = np.roll(a, -1, 1)
        b = np.roll(b, -2, 1) + x if r else b
    np.testing.assert_array_equal(run(TWICE, rounds=rounds, mode=mode), a - b * 2 + x * 3)


@pytest.mark.parametrize(
    "body",
    [REVERSED, SHIFTED, TOTAL, CARRIED, APART_BETWEEN, NESTED, TYPES, EARLY, UNIFORM_CHOICE, LOADED_BOUND, PLACES]
    + [TWICE, RUNNING, OWN_READ],
)
def test_barriers_that_all_simdgroups_pass_alike_are_cut(body: str) -> None:
    assert is_cut(body)


@pytest.mark.parametrize(
    "body",
    [
        BY_SIMDGROUP,
        f"if (i >= n / 2) return; {REVERSED}",
        f"t[i] = 0; {MEET} while (t[0] < rounds) {{ {MEET} if (i == 0) t[0] += 1; {MEET} }} y[g * n + i] = t[0];",
    ],
)
def test_other_barriers_are_not(body: str) -> None:
    assert not is_cut(body)


def test_simdgroups_that_come_to_different_barriers_are_reported() -> None:
    """One writes, through another argument, what all read to choose their way."""
    racing = f"""const int way = x[0]; if (i == 0) y[0] = 1 - rounds; int s = int(i);
      if (way == 0) {{ t[i] = s; {MEET} s += t[n - 1 - i]; }} else {{ t[i] = 2 * s; {MEET} s -= t[0]; }}
      y[n + i] = s;"""
    assert is_cut(racing)
    both = np.zeros(2 * 256, np.int32)
    kernel = metalcore.Library(source(racing)).function("k")
    for mode in ("fast", "checked"):
        with metalcore.mode(mode), pytest.raises(LaunchError, match="different barriers"):
            kernel(both, both, 0, threadgroups=1, group_size=256)
        both[:] = 0
        with metalcore.mode(mode):
            kernel(both, both, 1, threadgroups=1, group_size=256)
        np.testing.assert_array_equal(both[256:], 255)


MANY = range(320)  # numbers of 128 bytes that a simdgroup keeps: too many for 32 simdgroups, not for two
HEAVY = "".join(f"int v{k} = x[(g + i * {k + 1}) % n];" for k in MANY)
HEAVY += f"t[i] = x[i]; {MEET} int s = t[n - 1 - i];"
HEAVY += "".join(f"s = s * 3 + v{k};" for k in MANY) + "y[g * n + i] = s;"


def test_small_groups_may_keep_more() -> None:
    """Room is made for as many simdgroups as the source allows."""
    assert not is_cut(HEAVY)
    assert not is_cut(HEAVY, max_threads=1024)
    assert is_cut(HEAVY, max_threads=64)
    assert is_cut(HEAVY, max_threads=33)


@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
@pytest.mark.parametrize("threads", [32, 33, 64])
def test_values_of_small_groups(threads: int, mode: str) -> None:
    x = np.arange(3 * threads, dtype=np.int32) * 7 % 101
    y = np.zeros(3 * threads, np.int32)
    limited = source(HEAVY).replace("kernel void", "[[max_total_threads_per_threadgroup(64)]] kernel void")
    with metalcore.mode(mode):
        metalcore.Library(limited).function("k")(x, y, 0, threadgroups=3, group_size=threads)
    g, i = np.arange(3)[:, None], np.arange(threads)
    s = np.broadcast_to(x[threads - 1 - i], (3, threads)).astype(np.int64)
    for k in MANY:
        s = (s * 3 + x[(g + i * (k + 1)) % threads]) & 0xFFFFFFFF
    np.testing.assert_array_equal(y.reshape(3, threads).astype(np.int64) & 0xFFFFFFFF, s)


def test_a_branch_on_one_lane_of_all() -> None:
    """A shuffle from a lane that is the same for all gives one number for all: the barrier behind the branch is met."""
    body = f"int s = simd_shuffle(x[g * n + lane], ushort(rounds)); t[i] = x[g * n + i]; if (s % 2 == 0) {{ {MEET} }}"
    body += " y[g * n + i] = s % 2 == 0 ? t[n - 1 - i] : s;"
    assert is_cut(body)
    for rounds in (0, 5, 31):
        x = inputs()
        s = x[:, rounds : rounds + 1]
        assert np.array_equal(run(body, rounds=rounds), np.where(s % 2 == 0, x[:, ::-1], s)), rounds


# Found by a random test: `me` is made in front of a barrier, and of a loop with barriers.
MADE_EARLY = f"""{HEAD}kernel void k(device const float* x [[buffer(0)]], constant uint& rounds [[buffer(1)]],
    constant int& choice [[buffer(2)]], device float* y [[buffer(3)]], uint t [[thread_index_in_threadgroup]],
    ushort2 gid [[thread_position_in_grid]]) {{
  threadgroup half shared[64];
  uint me = gid.x;
  shared[t] = 0.0h;
  {MEET}
  float v = 1.0f;
  for (uint j = 0; j < rounds; ++j) {{ {MEET} }}
  {MEET}
  switch (choice) {{ case 2: {{ v = x[me]; }} }}
  y[me] = v;
}}"""


@pytest.mark.parametrize("mode", ["checked", "fast"])
@pytest.mark.parametrize("choice", [0, 2])
@pytest.mark.parametrize("rounds", [0, 1, 11])
def test_what_is_made_in_front_of_a_barrier_and_a_loop(rounds: int, choice: int, mode: str) -> None:
    """It is kept in front of the barrier; in the turn behind it nobody has it any more."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with metalcore.mode(mode):
        metalcore.Library(MADE_EARLY).function("k")(x, rounds, choice, y, threads=64, group_size=64)
    np.testing.assert_array_equal(y, x if choice == 2 else np.ones(64, np.float32))


def kept(body: str) -> int:
    """Bytes of each simdgroup."""
    return max(int(size) for size in re.findall(r"alloca \[(\d+) x i8\], align 64", code(body))) // 32


def branch(first: int, count: int = 12) -> str:
    """A loop with barriers that needs numbers from before it and carries two sums, needed behind different barriers."""
    made = "".join(f"int a{k} = x[(i + {first + k}) % n] * 3;" for k in range(count))
    used = "".join(f" + a{k} * {k + 1}" for k in range(count))
    return f"""{{ {made} int p = i, q = lane;
      for (int j = 0; j < rounds; j++) {{
        t[i] = p + q; {MEET} p = p * 3 + t[(i + 33) % n]; {MEET}
        if ((j + int(g)) % 2 == 0) {{ t[i] = q; {MEET} q += t[n - 1 - i]; {MEET} }}
        else {{ t[i] = p; {MEET} p ^= t[(i + 1) % n]; {MEET} }}
      }}
      s = p * 5 + q {used}; }}"""


def branches(count: int) -> str:
    cases = "".join(f"if (g == {k}) {branch(7 * k)} else " for k in range(count))
    return f"int s = 0; {cases} {{ s = 1; }} y[g * n + i] = s;"


def expected(threads: int, rounds: int, groups: int, first: int = 7, count: int = 12) -> np.ndarray:
    x, i = (np.arange(groups * threads, dtype=np.int64) * 7 % 101), np.arange(threads)
    rows = []
    for g in range(groups):
        p, q = i.copy(), i % 32
        for j in range(rounds):
            p = p * 3 + (p + q)[(i + 33) % threads]
            if (j + g) % 2 == 0:
                q = q + q[threads - 1 - i]
            else:
                p = p ^ p[(i + 1) % threads]
        rows.append(p * 5 + q + sum(x[(i + first * g + k) % threads] * 3 * (k + 1) for k in range(count)))
    return np.array(rows).astype(np.int32)


@pytest.mark.parametrize("mode", ["checked", "fast"])
@pytest.mark.parametrize("threads", [64, 97, 256])
def test_values_that_share_a_place(threads: int, mode: str) -> None:
    body = branches(3)
    assert is_cut(body)
    np.testing.assert_array_equal(run(body, threads, rounds=4, mode=mode), expected(threads, 4, 3))


def test_branches_share_their_places() -> None:
    """Only one of them runs in a threadgroup."""
    assert kept(branches(4)) <= kept(branches(1)) + 3 * 128
