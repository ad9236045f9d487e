"""Accesses of a large kernel that all lanes make at one address: with all lanes side by side, under a mask as calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.ir import parse
from metalcore.engine.lockstep import vectorise
from metalcore.engine.lockstep.gathers import MANY_ACCESSES
from metalcore.engine.optimiser import llvm

PAIRS, GROUPS, GROUP = 30, 3, 64
PLAIN = "".join(f"y[at + {i}] = x[at + {i}] * {i + 1}.0f; " for i in range(PAIRS))
SOURCE = f"""
kernel void plain(device const float2* x [[buffer(0)]], device float2* y [[buffer(1)]],
    uint g [[threadgroup_position_in_grid]]) {{
  uint at = g * {PAIRS};
  {PLAIN}
}}
kernel void masked(device const float2* x [[buffer(0)]], device float2* y [[buffer(1)]],
    device const uint* limits [[buffer(2)]], uint g [[threadgroup_position_in_grid]],
    uint i [[thread_position_in_threadgroup]]) {{
  uint at = g * {PAIRS};
  if (i < limits[g]) {{ {PLAIN} }}
}}
kernel void moved(device float2* x [[buffer(0)]], uint g [[threadgroup_position_in_grid]]) {{
  uint at = g * {PAIRS + 1};
  {"".join(f"x[at + {i + 1}] = x[at + {i}].yx + 1.0f; " for i in range(PAIRS))}
}}
"""


def pairs() -> Any:
    return np.random.default_rng(3).integers(-50, 50, (GROUPS, PAIRS, 2)).astype(np.float32)


def run(name: str, *arrays: Any) -> None:
    metalcore.Library(SOURCE).function(name)(*arrays, threads=GROUPS * GROUP, group_size=GROUP)


def expected(x: Any) -> Any:
    return x * np.arange(1, PAIRS + 1, dtype=np.float32)[:, None]


def test_pairs_of_all_lanes() -> None:
    x = pairs()
    y = np.zeros_like(x)
    run("plain", x, y)
    assert np.array_equal(y, expected(x))


def test_what_is_written_is_read_again() -> None:
    x = np.zeros((GROUPS, PAIRS + 1, 2), np.float32)
    x[:, 0] = np.arange(2 * GROUPS).reshape(GROUPS, 2)
    want = x.copy()
    for i in range(PAIRS):
        want[:, i + 1] = want[:, i, ::-1] + 1
    run("moved", x)
    assert np.array_equal(x, want)


def test_under_a_mask() -> None:
    x, limits = pairs(), np.array([5, 0, 40], np.uint32)
    y = np.full_like(x, 99)
    run("masked", x, y, limits)
    want = expected(x)
    want[1] = 99
    assert np.array_equal(y, want)


@pytest.mark.parametrize("name", ("plain", "masked"))
@pytest.mark.parametrize("short", (1, 2, 7))
@pytest.mark.parametrize("written", (False, True))
def test_past_the_end(name: str, short: int, written: bool) -> None:
    """What is in bounds is done, the rest is reported."""
    x = pairs()
    y = np.zeros_like(x)
    given = [x.reshape(-1), y.reshape(-1)]
    whole = given[written]
    given[written] = whole[: whole.size - short]
    beyond = whole[whole.size - short :].copy()
    want = expected(x).reshape(-1)
    limits = [np.array([5, 33, 40], np.uint32)] if name == "masked" else []
    with pytest.raises(metalcore.errors.KernelFault, match=rf"buffer .{'xy'[written]}. "):
        run(name, *given, *limits)
    assert np.array_equal(y.reshape(-1)[:-short], want[:-short])
    assert np.array_equal(whole[whole.size - short :], beyond)
    if not written:
        assert not y.reshape(-1)[-short:].any()


def test_how_much_is_written() -> None:
    """One test for both halves of a pair; under a mask one call for each."""
    assert 4 * PAIRS > MANY_ACCESSES
    unit = make_unit(SOURCE, path=None, include_dirs=[], defines={}, math_mode="safe")
    texts = []
    for name in ("plain", "masked"):
        scalar = parse(llvm.optimise_scalar(parse(lower(unit, name, None).ir), guarded=True))
        texts.append(vectorise(scalar, layout="line", single=True, checked=True, width=8, tail=False).ir)
    plain, masked = texts
    assert plain.count("\nin.") == 2 * PAIRS
    assert masked.count("call void @mc.one.store.float") == 2 * PAIRS
    assert masked.count("call float @mc.one.load.float") == 2 * PAIRS
