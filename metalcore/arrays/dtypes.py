"""Names of dtypes, the same words for every framework, and DLPack's codes of them."""

from __future__ import annotations

import sys
from typing import Any

NAMES = (
    *("float32", "float16", "bfloat16", "float64"),
    *("int64", "int32", "int16", "int8", "uint8", "uint32", "bool"),
)
"""Those that the op library makes arrays of."""

CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
"""DLPack's."""

_names: dict[Any, str] = {}  # of torch's dtypes alone: torch.compile reads it and takes no keys of other frameworks


def spelled(dtype: Any) -> str:
    """float32, bfloat16, ..., of NumPy's `float32`, `torch.float32` and `mlx.core.float32`."""
    return str(dtype).rpartition(".")[2]


_torch = sys.modules.get("torch")
if _torch is not None:  # all known before torch.compile traces: it goes by what the table lacks, too
    _names.update((x, spelled(x)) for x in vars(_torch).values() if isinstance(x, _torch.dtype))


def dtype_name(array: Any) -> str:
    """The dtype of an array of any framework."""
    dtype = array.dtype
    name = _names.get(dtype)
    if name is None:
        name = spelled(dtype)
        if type(dtype).__module__ == "torch":
            _names[dtype] = name
    return name


def type_code(dtype: str, size: int) -> int:
    """A dtype of this many bytes as native/tensor.c compares it: DLPack's code << 8 | bits."""
    return CODES[dtype.rstrip("0123456789")] << 8 | 8 * size
