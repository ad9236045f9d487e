"""Arrays of frameworks that are not known by name: DLPack says where they are."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from metalcore.arrays.dtypes import CODES
from metalcore.arrays.memory import Memory, elsewhere, extent

_KINDS = {code: kind for kind, code in CODES.items()}
_CPU = (1, 3, 11, 13, 14)  # devices: CPU, and memory pinned or shared for a GPU


class _Tensor(ctypes.Structure):
    """DLTensor, whose layout no version of DLPack changes; native/tensor.c has it too."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def memory_of(value: Any) -> Memory:
    """Its memory, to the end of its highest element."""
    kind, number = value.__dlpack_device__()
    if int(kind) not in _CPU:
        raise elsewhere(f"DLPack device {int(kind)}:{number}")
    capsule = value.__dlpack__()
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(read(capsule, b"dltensor"))
    name = _KINDS.get(tensor.code, "opaque")
    dtype = name if name == "bool" else f"{name}{tensor.bits}"
    item = tensor.bits * tensor.lanes // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    compact = [item] * tensor.ndim
    for i in range(tensor.ndim - 2, -1, -1):
        compact[i] = compact[i + 1] * shape[i + 1]
    strides = [tensor.strides[i] * item for i in range(tensor.ndim)] if tensor.strides else compact
    is_compact = all(n == 1 or s == c for n, s, c in zip(shape, strides, compact, strict=True))
    size = extent(shape, strides, item)
    has_holes = size > math.prod(shape) * item
    address = (tensor.data or 0) + tensor.byte_offset
    return Memory(address, size, dtype, (value, capsule), contiguous=is_compact, has_holes=has_holes)
