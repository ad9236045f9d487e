"""The changes that CONTRIBUTING.md describes for a newcomer, each made here and undone again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.arrays.numpy import NumpyArrays
from metalcore.diagnostics.kinds import KINDS, Kind
from metalcore.engine.checks import instrument
from metalcore.engine.checks.program import Program
from metalcore.engine.ir import make
from metalcore.engine.lockstep import simd
from metalcore.health import cases
from metalcore.health.verify import draw_sample
from metalcore.ops.base.elementwise import sweep
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.silu import OP as SILU
from metalcore.runtimes import kernel as kernels
from metalcore.runtimes import policy, text
from metalcore.runtimes.cpu import CpuRuntime, numpy_cpu
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Size
from metalcore.runtimes.runtime import Runtime

SQUARE = """// y = x^2
#include "elementwise.h"

template <typename T>
struct Square {
  device const T* x;
  device T* y;
  template <uint V>
  void step(uint i) {
    const wide<float, V> v = load<V>(x, i);
    store<V>(y, i, v * v);
  }
};

template <typename T, uint V>
[[kernel]] void square_forward(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant long& count [[buffer(2)]],
    uint3 position [[thread_position_in_grid]]) {
  const Part at = part(position, count);
  sweep<V>(Square<T>{x + at.first, y + at.first}, position.x, at.count);
}
"""

SQUARE_CASES = """from metalcore.health.draw import Sample

def reference(x):
    return x * x


def samples(draw):
    return Sample((draw.floats((*draw.leading(), draw.size())),))
"""


def test_a_wrong_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane that a move by a constant reads has one place in lockstep, and exact values tell a wrong one."""

    def moved(kernel: str) -> list[int]:
        source = f"""kernel void {kernel}(device uint* x, uint i [[thread_index_in_simdgroup]]) {{
          x[i] = metal::simd_shuffle_rotate_down(x[i], 9);
        }}"""
        x = np.arange(32, dtype=np.uint32)
        metalcore.Library(source).function(kernel)(x, threads=32)
        return x.tolist()

    right = [(lane + 9) % 32 for lane in range(32)]
    with monkeypatch.context() as broken:
        broken.setattr(simd, "_source_lane", lambda kind, lane, amount, modulo: (lane - amount) & 31)
        assert moved("turned_the_wrong_way") == [(lane - 9) % 32 for lane in range(32)] != right
    assert moved("turned_the_right_way") == right


def test_a_new_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel file, a declaration with a plan, and a file of cases."""
    for header in kernels.FOLDER.glob("*.h"):
        shutil.copy(header, tmp_path)
    (tmp_path / "square.metal").write_text(SQUARE)
    (tmp_path / "square.py").write_text(SQUARE_CASES)
    monkeypatch.setattr(cases, "__path__", [str(tmp_path)])
    monkeypatch.setattr(kernels, "FOLDER", tmp_path)
    monkeypatch.setattr(text, "FOLDER", tmp_path)
    kernel = Kernel("square", "square_forward")

    @stage("(Tensor x) -> Tensor y")
    def forward(run: Runtime, x: Any) -> tuple[Any, ...]:
        return sweep(run, kernel, (), dict(x=x), ("y",))

    square = Op("square", "x^2", forward)
    x = np.arange(-3, 7, dtype=np.float32)
    assert square(x).tolist() == np.square(x).tolist()
    try:
        for index in range(1, 6):
            (y,), _ = draw_sample(square, index).made(lambda value: value.numpy("float32"))
            assert np.array_equal(square(y), cases.find("square").reference(y))
    finally:
        sys.modules.pop(f"{cases.__name__}.square", None)


def test_a_new_memory_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that adds hooks, and a kind of finding with its words."""

    class NegativeRemainder:
        """An index by `%` of a negative number is negative."""

        @staticmethod
        def add(program: Program) -> None:
            for instr in program.instrs:
                if instr.op == "srem":
                    test = program.before(instr)(make.compare("slt", instr.args[0], make.number(instr.type, 0)))
                    program.report_if(test, "negative-remainder", instr)

    monkeypatch.setattr(instrument, "EARLY", (*instrument.EARLY, NegativeRemainder))
    monkeypatch.setitem(KINDS, "negative-remainder", Kind("negative-remainder", "a negative remainder", "add the size"))
    source = "kernel void newcomer(device int* x, uint i [[thread_position_in_grid]]) { x[i] = (int(i) - 2) % 3; }"
    x = np.zeros(4, np.int32)
    with metalcore.mode("sanitize") as report:
        metalcore.Library(source).function("newcomer")(x, threads=4)
    assert [(f.kind, f.thread, f.count) for f in report.findings] == [("negative-remainder", (0, 0, 0), 2)]
    assert x.tolist() == [-2, -1, 0, 1]


class Counting:
    """A runtime of its own: the engine's, and a list of what was launched."""

    family, writes_in_place, keeps_arguments, host_copies = "cpu", True, False, None

    def __init__(self) -> None:
        own = numpy_cpu()
        self.dtype, self.contiguous, self.cast, self.empty, self.sort = (
            *(own.dtype, own.contiguous, own.cast, own.empty, own.sort),
        )
        self.check_errors, self.check_info, self.any_set, self.stream = (
            *(own.check_errors, own.check_info, own.any_set, own.stream),
        )
        self.launched: list[str] = []

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        self.launched.append(kernel.name)
        return numpy_cpu().launch(kernel, types, constants, arguments, groups, group_size)


def test_a_new_runtime() -> None:
    """A class with the members of Runtime runs every plan."""
    run, x = Counting(), np.array([0.0, 100.0], np.float32)
    assert isinstance(run, Runtime)
    (y,) = SILU.forward.plan(run, x)
    assert y.tolist() == [0.0, 100.0] and run.launched == ["silu_forward"]


def test_a_tile_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of kernels/launch.toml, for one kind of device."""
    table = policy._table()
    changed = {**table, "linalg_matmul": {**table["linalg_matmul"]}}
    changed["linalg_matmul"]["cpu"] = {**table["linalg_matmul"]["cpu"], "tile_rows": 16, "tile_columns": 16}
    monkeypatch.setattr(policy, "_table", lambda: changed)
    policy.policy.cache_clear()
    try:
        run = CpuRuntime(NumpyArrays())
        a, b = np.random.default_rng(0).standard_normal((2, 40, 40)).astype(np.float32)
        assert np.allclose(matmul(run, a, b), a @ b, atol=1e-4)
        assert any(types[1:3] == (16, 16) for _, types, _ in run._prepared)
    finally:
        policy.policy.cache_clear()
