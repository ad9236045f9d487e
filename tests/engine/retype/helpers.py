"""Runs tiny kernels with float read as double."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import metalcore

Array = np.ndarray[Any, Any]
HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


def library(source: str, **options: Any) -> metalcore.Library:
    return metalcore.Library(HEADER + source, float_type="double", **options)


def evaluate(expressions: Sequence[str], *inputs: Array, setup: str = "", math_mode: str = "safe") -> Array:
    """One row per expression, one column per thread; input arrays are the floats `a`, `b`, `c` of each thread."""
    count = len(inputs[0])
    names = "abc"[: len(inputs)]
    parameters = "".join(f"device const float* {name}_ [[buffer({k})]], " for k, name in enumerate(names))
    values = " ".join(f"float {name} = {name}_[i];" for name in names)
    stores = "\n".join(f"out[{k} * n + i] = {text};" for k, text in enumerate(expressions))
    source = f"""kernel void k({parameters}device float* out [[buffer({len(names)})]],
        uint i [[thread_position_in_grid]], uint n [[threads_per_grid]],
        uint lane [[thread_index_in_simdgroup]]) {{ {values} {setup}
        {stores} }}"""
    out = np.full((len(expressions), count), np.nan)
    library(source, math_mode=math_mode).function("k")(*inputs, out, threads=count, group_size=64)
    return out


def close(got: Array, wanted: Any, tolerance: float = 1e-14) -> None:
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=0)
