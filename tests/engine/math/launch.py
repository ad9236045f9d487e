"""Runs math functions through the engine: one kernel for a family of functions, one row of results for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

import metalcore

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@lru_cache(maxsize=64)
def _function(calls: tuple[str, ...], arguments: int, kind: str, result: str, math_mode: str) -> Any:
    names = "xyz"[:arguments]
    parameters = [f"device const {kind}* in_{n} [[buffer({i})]]" for i, n in enumerate(names)]
    parameters += [f"device {result}* out [[buffer({arguments})]]", f"constant uint& n [[buffer({arguments + 1})]]"]
    loads = " ".join(f"{kind} {n} = in_{n}[i];" for n in names)
    stores = "\n".join(f"  out[{row} * n + i] = {call};" for row, call in enumerate(calls))
    parameters.append("uint i [[thread_position_in_grid]]")
    source = f"{HEAD}kernel void run({', '.join(parameters)}) {{\n  {loads}\n{stores}\n}}\n"
    return metalcore.Library(source, math_mode=math_mode).function("run")


def run(
    calls: Sequence[str],
    arguments: Sequence[npt.NDArray[Any]],
    *,
    kind: str = "float",
    result: str | None = None,
    math_mode: str = "safe",
    dtype: Any = None,
) -> npt.NDArray[Any]:
    """Each of *calls*, MSL expressions of x, y and z, on every element; row r holds the results of calls[r]."""
    size = arguments[0].size
    out = np.empty((len(calls), size), dtype or arguments[0].dtype)
    function = _function(tuple(calls), len(arguments), kind, result or kind, math_mode)
    with metalcore.mode("fast"):
        function(*arguments, out, np.uint32(size), threads=size, group_size=256)
    return out
