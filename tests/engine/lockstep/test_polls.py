"""Loops that ask whether to stop once in a block of rounds run exactly as often as they should."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.lockstep import vectorise
from metalcore.engine.lockstep.polls import FIRST, FIRST_BESIDE_BARRIERS, ROUNDS
from metalcore.errors import LaunchTimeout

FORMS = {
    "up": ("uint j = 0; j < n; j++", lambda i, n: range(0, n)),
    "up_by_three": ("uint j = 1; j < n; j += 3", lambda i, n: range(1, n, 3)),
    "up_to": ("uint j = 1; j <= n; j++", lambda i, n: range(1, n + 1)),
    "signed": ("int j = -700; j < int(n); j += 2", lambda i, n: range(-700, n, 2)),
    "down": ("int j = int(n); j > 0; j--", lambda i, n: range(n, 0, -1)),
    "down_by_five": ("int j = int(n); j >= 2; j -= 5", lambda i, n: range(n, 1, -5)),
    "until": ("uint j = n; j != 0; j--", lambda i, n: range(n, 0, -1)),
    "until_by_four": ("uint j = 0; j != 4 * n; j += 4", lambda i, n: range(0, 4 * n, 4)),
    "around": ("uint j = 4294967290u; j != n; j++", lambda i, n: range(-6, n)),
    "wide": ("long j = 4294967296l; j < 4294967296l + n; j++", lambda i, n: range(1 << 32, (1 << 32) + n)),
    "line": ("uint j = i; j < n; j += 32", lambda i, n: range(i, n, 32)),
    "line_far": ("uint j = i + 30000; j < 30000 + n; j += 32", lambda i, n: range(i + 30000, 30000 + n, 32)),
    "line_signed": ("int j = int(i) - 50; j < int(n); j += 32", lambda i, n: range(i - 50, n, 32)),
    "step": ("uint j = i; j < n; j += step", lambda i, n: range(i, n, 7)),
    "branch": ("uint j = 0; j < n; j++", lambda i, n: range(0, n)),
    "at_most": ("uint j = 0; j < metal::min(n, 40u); j++", lambda i, n: range(0, min(n, 40))),
    "at_most_from": (
        "uint j = n & 3; j != (n & 3) + metal::min(n, 900u); j++",
        lambda i, n: range(n & 3, (n & 3) + min(n, 900)),
    ),
    "at_least": ("uint j = 0; j < metal::max(n, 5u); j += 3", lambda i, n: range(0, max(n, 5), 3)),
}
COUNTS = (0, 1, 2, 31, 32, 33, ROUNDS - 1, ROUNDS, ROUNDS + 1, 2 * ROUNDS + 5)
COUNTS += (FIRST - 1, FIRST, FIRST + 1, FIRST + 5000)

POWERS = np.cumprod(np.concatenate([[1], np.full(2 * FIRST, 31)]).astype(np.uint32), dtype=np.uint32)


def _kernel(name: str) -> str:
    loop, _ = FORMS[name]
    count = "if (j % 5 == i % 5) { s += 2; x[i] = j; } else s += 3;" if name == "branch" else "s += 1;"
    return f"""kernel void k_{name}(device uint* y, device uint* x, constant uint& n, constant uint& step,
        uint i [[thread_position_in_grid]]) {{
      uint s = 0, h = 0;
      for ({loop}) {{ h = h * 31 + uint(j); {count} }}
      y[2 * i] = s; y[2 * i + 1] = h; }}"""


def _expected(name: str, i: int, n: int) -> tuple[int, int]:
    values = np.array(FORMS[name][1](i, n), np.int64)
    mixed = int(np.sum(values.astype(np.uint32) * POWERS[len(values) - 1 :: -1][: len(values)], dtype=np.uint32))
    rounds = len(values)
    if name == "branch":
        rounds = int(np.where(values % 5 == i % 5, 2, 3).sum())
    return rounds, mixed


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_rounds_are_counted_exactly(mode: str) -> None:
    library = metalcore.Library("\n".join(_kernel(name) for name in FORMS))
    lanes = (0, 1, 31, 39)
    with np.errstate(over="ignore"), metalcore.mode(mode):
        for name in FORMS:
            function = library.function(f"k_{name}")
            for n in COUNTS:
                y, x = np.zeros(80, np.uint32), np.zeros(40, np.uint32)
                function(y, x, n, 7, threads=40, group_size=40)
                for i in lanes:
                    assert tuple(y.reshape(40, 2)[i]) == _expected(name, i, n), (name, n, i)


BESIDE_A_BARRIER = """
kernel void group(device uint* y, constant uint& n, uint i [[thread_position_in_threadgroup]],
    uint size [[threads_per_threadgroup]]) {
  uint s = 0, h = 0;
  for (uint j = i; j < n; j += size) { h = h * 31 + j; s += 1; }
  metal::threadgroup_barrier(metal::mem_flags::mem_device);
  y[2 * i] = s; y[2 * i + 1] = h; }"""


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_rounds_are_counted_exactly_beside_barriers(mode: str) -> None:
    function = metalcore.Library(BESIDE_A_BARRIER).function("group")
    with np.errstate(over="ignore"), metalcore.mode(mode):
        far = FIRST_BESIDE_BARRIERS
        for n in (0, 1, 95, 97, FIRST - 1, FIRST, FIRST + 97, far - 5, far, far + 1, far + FIRST + 200):
            y = np.zeros((96, 2), np.uint32)
            function(y, n, threads=96, group_size=96)
            for i in (0, 1, 31, 95):
                values = np.arange(i, n, 96).astype(np.uint32)
                mixed = np.sum(values * POWERS[: len(values)][::-1], dtype=np.uint32)
                assert tuple(y[i]) == (len(values), mixed), (n, i)


# Counters whose step leads over the end of the numbers pass their test again: these never end.
AROUND = {
    "up": "uint j = 0; j < n; j += 256",
    "up_to": "uint j = 0; j <= n; j++",
    "down": "uint j = n; j > 0; j -= 256",
    "signed": "int j = 0; j < int(n >> 1); j = int(uint(j) + 256)",
    "line": "uint j = i; j < n; j += 64",
    "group": "uint j = 0; j < n; j += size",
    "group_line": "uint j = i; j < n; j += size",
    "step": "uint j = 0; j < n; j += step",
    "from_the_end": "uint j = n - 100; j <= n; j++",
    "down_to_zero": "uint j = 100; j >= zero; j--",
    "wide": "ulong j = wide - 100; j <= wide; j++",
    "wide_down": "ulong j = 100; j >= zero; j--",
    "wide_by_seven": "ulong j = wide - 100; j < wide; j += 7",
    "wide_group": "ulong j = wide - 100; j < wide; j += size",
}


@pytest.mark.parametrize("barrier", ["", "metal::threadgroup_barrier(metal::mem_flags::mem_device);"])
@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_loops_around_the_end_of_the_numbers_are_stopped(mode: str, barrier: str) -> None:
    library = metalcore.Library(
        "".join(
            f"""kernel void k_{name}(device uint* y, constant uint& n, constant uint& step,
              uint i [[thread_position_in_threadgroup]], uint size [[threads_per_threadgroup]]) {{
            const ulong zero = step - 64, wide = zero - 1;
            uint s = 0; for ({loop}) s += y[j & 31] * 3; {barrier} y[i] = s; }}"""
            for name, loop in AROUND.items()
        )
    )
    with metalcore.mode(mode):
        for name in AROUND:
            y, function = np.ones(64, np.uint32), library.function(f"k_{name}")
            with pytest.raises(LaunchTimeout):
                function(y, 0xFFFFFFFF, 64, threads=64, group_size=64, timeout=0.1)


LOOP = """
define void @__mc_entry() {{
entry:
  %p = call ptr @__mc_arg(i32 0)
  %n = load i32, ptr %p
  %few = call i32 @llvm.umin.i32(i32 %n, i32 16)
  %some = call i32 @llvm.umax.i32(i32 %few, i32 1)
  br label %loop
loop:
  %j = phi i32 [ {start}, %entry ], [ %next, %loop ]
  %s = phi i32 [ 0, %entry ], [ %t, %loop ]
  %t = mul i32 %s, %j
  %next = {op} i32 %j, {step}
  %more = icmp {test}
  br i1 %more, label %{targets}
done:
  store i32 %t, ptr %p
  ret void
}}
declare ptr @__mc_arg(i32)
declare i32 @llvm.umin.i32(i32, i32)
declare i32 @llvm.umax.i32(i32, i32)
"""


def _polls(
    step: str, test: str, targets: str = "loop, label %done", op: str = "add", start: str = "0"
) -> tuple[int, bool]:
    """How often the code of 32 lanes reads the word, and whether a block of rounds has an end."""
    text = LOOP.format(step=step, test=test, targets=targets, op=op, start=start)
    ir = vectorise(text, layout="line", single=True, checked=False, width=8, tail=False).ir
    body = ir[ir.index("@simdgroup.full") : ir.index("@mc_run")]
    return len(re.findall(r"load volatile i32, ptr %stop\n", body)), "F.again.loop" in body


def test_which_loops_ask() -> None:
    assert _polls("1", "ult i32 %next, 1000") == (0, False)  # few rounds
    assert _polls("1", "ult i32 %next, 2000") == (1, True)
    assert _polls("1", "ult i32 %next, %n") == (1, True)
    assert _polls("1", "eq i32 %next, %n", "done, label %loop") == (1, True)
    assert _polls("%n", "ult i32 %next, 5000") == (1, True)  # a step of 0 is looked at in each round
    assert _polls("%n", "ule i32 %next, 5000") == (1, False)
    assert _polls("%n", "ne i32 %next, 5000") == (1, False)
    assert _polls("65536", "ult i32 %next, %n") == (1, False)
    assert _polls("-1", "ult i32 %next, %n") == (1, False)  # away from its bound
    assert _polls("1024", "ult i32 %next, -1") == (1, True)  # around for ever
    assert _polls("3", "ne i32 %next, 1024") == (1, True)  # never met


def test_a_bound_that_is_known_to_be_small_needs_no_look() -> None:
    assert _polls("1", "ult i32 %next, %few") == (0, False)
    assert _polls("1", "ne i32 %next, %some") == (0, False)
    assert _polls("1", "eq i32 %next, %some", "done, label %loop") == (0, False)
    assert _polls("1", "ne i32 %next, %few") == (1, True)  # where that is 0, it is passed over
    assert _polls("2", "ne i32 %next, %some") == (1, True)  # may be passed over
    assert _polls("-1", "ult i32 %next, %few") == (1, False)


def test_a_counter_that_is_halved_or_doubled_needs_no_look() -> None:
    halved, doubled = {"op": "lshr", "start": "%n"}, {"op": "shl", "start": "1"}
    assert _polls("1", "ne i32 %next, 0", **halved) == (0, False)
    assert _polls("2", "eq i32 0, %j", "done, label %loop", **halved) == (0, False)
    assert _polls("1", "ugt i32 %next, 31", **halved) == (0, False)
    assert _polls("1", "sgt i32 %next, 0", op="ashr", start="%n") == (0, False)
    assert _polls("1", "ult i32 %j, 1000", **doubled) == (0, False)
    assert _polls("1", "ule i32 %next, %few", **doubled) == (0, False)
    # Those that may never end.
    assert _polls("1", "ne i32 %next, 0", op="ashr", start="%n") == (1, False)
    assert _polls("1", "ugt i32 %next, 31", op="ashr", start="%n") == (1, False)
    assert _polls("0", "ne i32 %next, 0", **halved) == (1, False)
    assert _polls("1", "ne i32 %next, 64", **halved) == (1, False)
    assert _polls("1", "ult i32 %next, 1000", op="shl", start="%n") == (1, False)
    assert _polls("1", "ult i32 %next, 1000", op="shl", start="0") == (1, False)
    assert _polls("1", "ult i32 %next, %n", **doubled) == (1, False)
    assert _polls("2", "ult i32 %next, 1000", **doubled) == (1, False)
