"""Positions that kernels keep as `short`: the same values, and patterns over the lanes where nothing is cut off."""

from __future__ import annotations

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.ir import parse
from metalcore.engine.lockstep import shorts
from metalcore.engine.optimiser import llvm

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
ARGUMENTS = (
    "device const int* x [[buffer(0)]], device int* y [[buffer(1)]], uint i [[thread_position_in_grid]], "
    "uint t [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], "
    "uint sg [[simdgroup_index_in_threadgroup]]"
)
# An index as MSL, and as NumPy makes it of the position in the group (one of 96) and of the number that x has there.
INDICES = {
    "short(t) / 4": lambda t, x: t // 4,
    "short(t) % 4 * 16": lambda t, x: t % 4 * 16,
    "short(short(sg * 32 + lane) * 300)": lambda t, x: (t * 300).astype(np.int16),
    "ushort(t * 700)": lambda t, x: (t * 700).astype(np.uint16),
    "char(t * 2)": lambda t, x: (t * 2).astype(np.int8),
    "uchar(t + 200)": lambda t, x: (t + 200).astype(np.uint8),
    "short(x[i])": lambda t, x: x.astype(np.int16),
    "short(x[i] & 1023) / 8": lambda t, x: (x & 1023) // 8,
    "short(x[i] & 65535) / 8": lambda t, x: np.trunc((x & 65535).astype(np.int16) / 8).astype(int),
    "short(-int(t)) / 4": lambda t, x: -(t // 4),
    "(int(t) << 16) >> 16": lambda t, x: t,
    "(int(t * 500) << 16) >> 16": lambda t, x: (t * 500).astype(np.int16),
    "(int(t * 500) << 16) >> 14": lambda t, x: (t * 500).astype(np.int16).astype(int) * 4,
    "int((long(t * 9) << 48) >> 47)": lambda t, x: t * 18,
}


def source(index: str) -> str:
    return f"{HEAD}kernel void k({ARGUMENTS}) {{ y[i] = int({index}); }}"


@pytest.mark.parametrize("mode", ["fast", "checked", "sanitize"])
@pytest.mark.parametrize("index", INDICES)
def test_values(index: str, mode: str) -> None:
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 192, dtype=np.int64).astype(np.int32)
    y = np.zeros(192, np.int32)
    with metalcore.mode(mode):
        metalcore.Library(source(index)).function("k")(x, y, threads=192, group_size=96)
    t = np.arange(192) % 96
    np.testing.assert_array_equal(y, np.asarray(INDICES[index](t, x.astype(np.int64))).astype(np.int64))


def narrow(index: str) -> list[str]:
    """What is left of narrow numbers and of shifts back."""
    unit = make_unit(source(index), path=None, include_dirs=[], defines={}, math_mode="safe")
    function = parse(llvm.optimise_scalar(lower(unit, "k", None).ir)).function
    shorts.widen_shorts(function, "%new.")
    read = {arg for block in function.blocks for instr in block.instrs for arg in instr.args}
    left = [instr for block in function.blocks for instr in block.instrs if instr in read]
    return [i.op for i in left if i.op == "ashr" or (i.type.kind == "int" and 8 <= i.type.bits < 32)]


@pytest.mark.parametrize("index", ["short(t) / 4", "short(t) % 4 * 16", "short(x[i] & 1023) / 8", "short(sg * 4) / 4"])
def test_small_numbers_are_wide(index: str) -> None:
    assert not narrow(index)


@pytest.mark.parametrize("index", ["short(x[i]) / 8", "short(x[i] & 65535) / 8", "short(t * 64) / 4"])
def test_numbers_that_may_be_cut_off_stay(index: str) -> None:
    assert narrow(index)
