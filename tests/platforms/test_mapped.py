"""A kernel that was made for macOS runs on Linux: the processor is the same."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault
from metalcore.tools import agreement
from tests.platforms.mapped import Mapped, in_place

SHORT = "kernel void past(device float* y, uint i [[thread_position_in_grid]]) { y[i + 1] = 1; }"


@pytest.mark.skipif(sys.platform != "linux", reason="on a Mac all kernels are for it")
def test_kernels_for_a_mac() -> None:
    before, y = Mapped.loaded, np.zeros(64, np.float32)
    with in_place():
        good, said = agreement.report({"NumPy": agreement.by_numpy(), "for macOS": agreement.by_engine()})
        assert good, said
        with pytest.raises(KernelFault, match=r"index 32, the size is 32"):
            metalcore.Library(SHORT).function("past")(y[:32], threads=32, group_size=32)
    assert Mapped.loaded == before + 2 and not y[32:].any()
