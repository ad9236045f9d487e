"""The code of aarch64, looked at: loops of the benchmark's kernels compute whole registers, half numbers as such.

It is compiled here for that processor, on any machine; `scripts/test-aarch64` runs it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.model import Variant
from metalcore.engine.target import AARCH64, LINUX, Platform, Target

ROOT = Path(__file__).resolve().parents[3]
BENCHMARKS = ROOT / "benchmarks" / "kernels"
WHERE = Platform(LINUX, AARCH64)
WITH_HALF = Target(WHERE, "neoverse-n1", ("+neon", "+fp-armv8", "+fullfp16"))
WITHOUT = Target(WHERE, "cortex-a57", ("+neon", "+fp-armv8"))
HALF = """
#include <metal_stdlib>
using namespace metal;
kernel void axpy(device const half* x, device half* y, constant half& a, uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + y[i] * half(0.5);
}
kernel void largest(device const half* x, device half* y, uint i [[thread_position_in_grid]]) {
  y[i] = max(x[i], y[i]) - fma(x[i], x[i], y[i]);
}
kernel void root(device const half* x, device half* y, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] > half(0) ? sqrt(x[i]) : -y[i] / x[i];
}
"""
FLOATS = """
#include <metal_stdlib>
using namespace metal;
kernel void loaded(device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = max(x[i], y[i]);
}
kernel void computed(device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = clamp(x[i] * y[i], 1.0f, 3.0f);
}
kernel void kept(device const float* x, device float* y, constant uint& n, uint i [[thread_position_in_grid]]) {
  float largest = -INFINITY;
  for (uint j = 0; j < n; j++) largest = max(largest, x[j * 32 + i]);
  y[i] = largest;
}
"""


class Code:
    """The assembly of one kernel."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def loops(self) -> list[list[str]]:
        """The instructions of each innermost loop that computes with floats."""
        labels = {line[:-1]: i for i, line in enumerate(self.lines) if re.fullmatch(r"\.LBB\d+_\d+:", line)}
        found = set()
        for i, line in enumerate(self.lines):
            branch = re.match(r"\t(?:b|cb|tb)\S*\t.*?(\.LBB\d+_\d+)$", line)
            if branch and labels.get(branch[1], i) < i:
                found.add((labels[branch[1]], i))
        inner = [(a, b) for a, b in found if not any((c, d) != (a, b) and a <= c and d <= b for c, d in found)]
        bodies = [[x.strip() for x in self.lines[a : b + 1] if re.match(r"\t[a-z]", x)] for a, b in sorted(inner)]
        return [body for body in bodies if any(is_arithmetic(line) for line in body)]

    def counts(self) -> Counter[str]:
        """How often each instruction comes, with the shape of its first register: `fadd v.8h`."""
        found: Counter[str] = Counter()
        for line in self.lines:
            words = re.match(r"\t([a-z]\w*)\t(?:v\d+(\.\w+))?", line)
            if words:
                found[words[1] + (f" v{words[2]}" if words[2] else "")] += 1
        return found


def is_arithmetic(line: str) -> bool:
    return bool(re.match(r"f(add|sub|mul|mla|mls|div|max|min|sqrt|cmgt|cmge)", line))


def is_one_lane(line: str) -> bool:
    """A move between one lane and another register, or a branch on the bit of one lane; bit 0 is a bool."""
    return bool(re.match(r"(umov|smov|ins|mov|ld1|st1)\t.*v\d+\.[bhsd]\[|tbn?z\t\w+, #[1-9]", line))


def is_vector(line: str) -> bool:
    return bool(re.search(r"\bv\d+\.\d+[bhsd]|\bq\d+", line))


def compiled(
    source: str, name: str, target: Target, folder: Path, monkeypatch: pytest.MonkeyPatch, layout: str = "line"
) -> Code:
    monkeypatch.setenv("METALCORE_DUMP", str(folder))
    variant = Variant(layout=layout, single=False, checked=False, tail=False)
    pipeline.build(lower(make_unit(source, path=str(BENCHMARKS / "x.metal")), name, {}), variant, target)
    return Code((folder / name / variant.key / "kernel.s").read_text())


LOOPS = {  # file, kernel, layout: instructions of its shortest loop of floats, which works on 32 numbers or more
    ("elementwise.metal", "saxpy", "line"): 32,
    ("elementwise.metal", "silu", "line"): 300,
    ("norm.metal", "rms_norm", "line"): 28,
    ("norm.metal", "softmax", "line"): 40,
    ("reduce.metal", "row_sum", "line"): 28,
    ("gemm.metal", "gemm_tiled", "rows"): 30,
}


@pytest.mark.feature("lockstep", "aarch64: loops of whole registers, no lane by itself")
def test_loops_compute_whole_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for (file, name, layout), most in LOOPS.items():
        code = compiled((BENCHMARKS / file).read_text(), name, WITH_HALF, tmp_path, monkeypatch, layout)
        loops = code.loops()
        assert loops, name
        for body in loops:
            scalars = [line for line in body if is_one_lane(line) or (is_arithmetic(line) and not is_vector(line))]
            assert not scalars, (name, scalars, body)
        assert min(map(len, loops)) <= most, (name, min(loops, key=len))


@pytest.mark.feature("lockstep", "aarch64: half numbers are added and multiplied as such where the processor can")
def test_half_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wanted in (("axpy", "fmla"), ("largest", "fmaxnm"), ("root", "fsqrt")):
        counts = compiled(HALF, name, WITH_HALF, tmp_path / "with", monkeypatch).counts()
        assert counts[f"{wanted} v.8h"] and not [found for found in counts if found.startswith("fcvt")], counts
        counts = compiled(HALF, name, WITHOUT, tmp_path / "without", monkeypatch).counts()
        assert not counts[f"{wanted} v.8h"] and counts["fcvtl v.4s"], counts


@pytest.mark.feature("lockstep", "aarch64: a NaN from memory is made a quiet one before an extreme, no other number")
def test_signalling_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, each in (("loaded", 2), ("computed", 0), ("kept", 1)):
        counts = compiled(FLOATS, name, WITHOUT, tmp_path, monkeypatch).counts()
        largest = counts["fmaxnm v.4s"]
        quieted = counts["fminnm v.4s"] - (largest if name == "computed" else 0)
        assert largest and quieted == each * largest, (name, counts)
