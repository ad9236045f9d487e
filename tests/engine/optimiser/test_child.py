"""Machine code comes from llvmlite's LLVM or from the ziglang wheel's, by the size of a kernel: it must be the same."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.lockstep import vectorise
from metalcore.engine.optimiser import child, llvm
from metalcore.errors import MetalcoreError

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void k(device const float* x, device float* y, constant uint& n, uint i [[thread_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float kept[32];
  float s = 0;
  for (uint j = lane; j < n; j += 32) s += exp(x[j]) * x[j];
  kept[lane] = simd_sum(s) + (x[i] < 0 ? sqrt(-x[i]) : x[(i * 7) % n]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = kept[31 - lane] + float(as_type<uint>(x[i]) % 10u);
}
"""


def lockstep(checked: bool) -> str:
    scalar = llvm.optimise_scalar(lower(make_unit(SOURCE), "k", None).ir, guarded=checked)
    return vectorise(scalar, layout="line", single=False, checked=checked, width=llvm.vector_width(), tail=False).ir


def sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Code, constants and what is to be filled in of an ELF object, by name."""
    (start,), (size, count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    for name, _, _, _, offset, length in heads:
        at = heads[names][4] + name
        text = data[at : data.index(b"\0", at)].decode()
        if text.startswith((".text", ".rodata", ".data")):
            yield text, data[offset : offset + length]


@pytest.mark.parametrize("quick", (False, True))
@pytest.mark.parametrize("large", (False, True))
@pytest.mark.parametrize("checked", (False, True))
def test_both_make_the_same_code(checked: bool, large: bool, quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lockstep(checked)
    assert text.count("\n") > child.SMALL
    if large:
        monkeypatch.setattr(llvm, "LARGE", 100)
    ours, theirs = (dict(sections(emit(text, quick=quick))) for emit in (llvm.emit_object, child.emit_object))
    assert len(ours[".text"]) > 500 and ours == theirs


def test_small_and_other_kernels_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x, results = np.random.default_rng(0).standard_normal(128).astype(np.float32), []
    for limit in (0, 1_000_000):
        monkeypatch.setattr(child, "SMALL", limit)
        y = np.zeros_like(x)
        metalcore.Library(f"// {tmp_path}: {limit}\n{SOURCE}").function("k")(x, y, 128, threads=128, group_size=32)
        results.append(y)
    assert np.array_equal(*results) and results[0].all()


def test_text_that_is_no_ir_is_an_error_of_ours() -> None:
    with pytest.raises(MetalcoreError, match="the code generator failed"):
        child.emit_object("define void @mc_run() { nonsense }\n")
