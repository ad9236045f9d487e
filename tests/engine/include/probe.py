"""Runs small MSL expressions, one value per thread and expression: a test states an input and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import metalcore

Array = npt.NDArray[Any]
NAMES = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int8): "char",
    np.dtype(np.uint8): "uchar",
    np.dtype(np.int16): "short",
    np.dtype(np.uint16): "ushort",
    np.dtype(np.int32): "int",
    np.dtype(np.uint32): "uint",
    np.dtype(np.int64): "long",
    np.dtype(np.uint64): "ulong",
    np.dtype(np.float16): "half",
    np.dtype(np.float32): "float",
    np.dtype(ml_dtypes.bfloat16): "bfloat",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
bfloat16 = np.dtype(ml_dtypes.bfloat16)
HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


def launch(source: str, name: str, arrays: Sequence[Array], threads: int, group: int) -> None:
    """Run one kernel; array i is `[[buffer(i)]]`."""
    metalcore.Library(HEADER + source).function(name)(*arrays, threads=threads, group_size=group)


def compiles(source: str) -> None:
    """Compile every kernel of *source*, or raise; nothing is run."""
    metalcore.Library(HEADER + source).check()


def probe(
    expressions: Sequence[str],
    out: str = "float",
    *,
    threads: int | None = None,
    group: int | None = None,
    setup: str = "",
    header: str = "",
    **inputs: Array,
) -> Array:
    """One row per thread, one column per expression.

    Each input array gives a variable of its name: element i of it in thread i, a row of 2 to 4 as a vector.
    The variable `i` is the thread, and `name_` the buffer itself.
    """
    count = threads or max([len(a) for a in inputs.values()], default=1)
    parameters, locals_ = [], []
    for slot, (name, array) in enumerate(inputs.items()):
        scalar = NAMES[array.dtype]
        if array.ndim == 2:
            lanes = array.shape[1]
            parameters.append(f"device const packed_{scalar}{lanes}* {name}_ [[buffer({slot})]]")
            locals_.append(f"{scalar}{lanes} {name} = {name}_[i];")
        else:
            parameters.append(f"device const {scalar}* {name}_ [[buffer({slot})]]")
            locals_.append(f"{scalar} {name} = {name}_[i];")
    parameters.append(f"device {out}* out [[buffer({len(inputs)})]]")
    parameters.append("uint i [[thread_position_in_grid]]")
    width = len(expressions)
    stores = "\n  ".join(f"out[i + {k * count}] = {out}({e});" for k, e in enumerate(expressions))
    source = (
        f"#include <metal_stdlib>\nusing namespace metal;\n{header}\n"
        f"kernel void probe({', '.join(parameters)}) {{\n  {' '.join(locals_)}\n  {setup}\n  {stores}\n}}\n"
    )
    result = np.zeros((width, count), DTYPES[out])
    arrays = [np.ascontiguousarray(a) for a in inputs.values()]
    launch(source, "probe", [*arrays, result], count, group or min(count, 256))
    table: Array = result.T
    return table


def parts(expression: str, lanes: int) -> list[str]:
    """The components of a vector expression."""
    return [f"({expression}).{c}" for c in "xyzw"[:lanes]]


def row(expressions: Sequence[str], out: str = "float", **more: Any) -> list[Any]:
    """The values of one thread as a list."""
    values: list[Any] = probe(expressions, out, threads=1, **more)[0].tolist()
    return values
