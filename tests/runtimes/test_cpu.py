"""CpuRuntime, beside what every op shows: which types go together in one kernel."""

from __future__ import annotations

from typing import Any

import pytest

import metalcore
from metalcore.errors import ArgumentError
from metalcore.ops.rms_norm import FORWARD
from metalcore.runtimes.cpu import torch_cpu

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("other", ["float32", "float16", "bfloat16"])
def test_float64_goes_with_no_other_floating_type(other: str) -> None:
    """A kernel in double reads all its floats as double: memory of another type would be misread."""
    for types in (("float64", other, 1), (other, "float64", 1)):
        with pytest.raises(ArgumentError, match="float64 cannot be mixed"):
            torch_cpu().prepared(FORWARD, types, (True,))


def test_an_op_refuses_the_mix() -> None:
    q, tables = torch.randn(1, 1, 2, 4, dtype=torch.float64), torch.randn(2, 2, 4)
    with pytest.raises(ArgumentError, match="float64 cannot be mixed"):
        metalcore.rope(q, q, *tables)
