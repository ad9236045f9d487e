"""Machine code for another machine than this one, without anything of this process changing."""

from __future__ import annotations

import ctypes
import platform
import struct
from pathlib import Path

import pytest

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower, make_unit
from metalcore.engine.model import Variant
from metalcore.engine.optimiser import llvm
from metalcore.engine.target import AARCH64, LINUX, MACOS, X86_64, Platform, Target, baseline, this_platform
from metalcore.errors import UnsupportedFeature

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void scale(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = exp(x[i]); }
"""
LINE = Variant(layout="line", single=False, checked=True)
ELF_MACHINES = {X86_64: 62, AARCH64: 183}


def machine_of(path: str) -> int:
    (found,) = struct.unpack_from("<H", Path(path).read_bytes(), 18)
    return int(found)


@pytest.mark.parametrize("machine", ELF_MACHINES)
def test_a_kernel_for_another_processor(machine: str) -> None:
    kernel = lower(make_unit(SOURCE), "scale", {})
    target = baseline(Platform(LINUX, machine))
    assert machine_of(pipeline.build(kernel, LINE, target).path) == ELF_MACHINES[machine]
    here = pipeline.build(kernel, LINE)
    assert machine_of(here.path) == ELF_MACHINES[this_platform().machine]
    assert ctypes.CDLL(here.path).mc_run


def test_lanes_of_a_register() -> None:
    widths = {m: llvm.vector_width(target=baseline(Platform(LINUX, m))) for m in ELF_MACHINES}
    assert widths == {X86_64: 8, AARCH64: 8}
    wide = Target(Platform(LINUX, X86_64), "icelake-server", ("+avx2", *(f"+{name}" for name in llvm._WIDE)))
    assert llvm.vector_width(target=wide) == 16
    assert llvm.vector_width(has_matrices=True, target=wide) == 8
    assert llvm.has_fma(baseline(Platform(MACOS, AARCH64))) and not llvm.has_fma(wide)


def test_baselines_are_what_llvm_takes_them_for() -> None:
    for system in (LINUX, MACOS):
        for machine in ELF_MACHINES:
            target = baseline(Platform(system, machine))
            assert llvm.target_machine(target=target).triple == target.platform.triple


def test_a_system_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    with pytest.raises(UnsupportedFeature, match=r"Windows .* WSL 2"):
        this_platform.__wrapped__()
