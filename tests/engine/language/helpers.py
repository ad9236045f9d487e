"""Short ways to run a tiny kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import metalcore

Array = np.ndarray[Any, Any]
HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"
# The names that bodies of `per_thread` may use
PARAMETERS = """uint gid [[thread_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint group [[threadgroup_position_in_grid]], uint group_threads [[threads_per_threadgroup]]"""


def launch(
    source: str,
    *args: Any,
    name: str = "k",
    threads: Any = None,
    threadgroups: Any = None,
    group_size: Any = 32,
    constants: Mapping[int | str, object] | None = None,
    math_mode: str = "safe",
    memory: Mapping[int | str, int] | None = None,
    **named: Any,
) -> None:
    """Compiles the source and runs one kernel of it."""
    function = metalcore.Library(HEADER + source, math_mode=math_mode).function(name, constants=constants)
    extra = {"threadgroup_memory": memory} if memory else {}
    function(*args, threads=threads, threadgroups=threadgroups, group_size=group_size, **extra, **named)


def per_thread(
    body: str, threads: int = 4, group_size: int = 32, before: str = "", dtype: str = "int", fill: int = -7
) -> list[Any]:
    """Runs `body`, which stores to `out[gid]`, and returns out. Elements that no thread stores hold `fill`."""
    types = {"int": np.int32, "uint": np.uint32, "float": np.float32, "half": np.float16, "long": np.int64}
    out = np.full(threads, fill, types[dtype])
    source = f"{before}\nkernel void k(device {dtype}* out [[buffer(0)]], {PARAMETERS}) {{\n{body}\n}}\n"
    launch(source, out, threads=threads, group_size=group_size)
    values: list[Any] = out.tolist()
    return values


def feature(area: str, name: str, *values: Any) -> Any:
    """A case of a parametrised test that backs one row of docs/supported.md."""
    return pytest.param(*values, id=name, marks=pytest.mark.feature(area, name))
