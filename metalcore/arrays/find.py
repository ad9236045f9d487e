"""The memory behind an object of any framework. Nothing is copied, and no framework is imported for it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from metalcore.arrays import dlpack, mlx, numpy, torch
from metalcore.arrays.memory import Memory
from metalcore.arrays.mlx import is_mlx
from metalcore.arrays.torch import is_torch

RAW = (bytes, bytearray, ctypes.Structure, ctypes.Union, ctypes.Array)
"""Objects that are bytes without a type of elements."""
_IMMUTABLE = ("jax", "jaxlib")  # frameworks whose arrays never change once made, whatever their buffers say


def is_array(value: object) -> bool:
    """Whether the value is an array of NumPy, torch or mlx."""
    return isinstance(value, np.ndarray) or is_torch(value) or is_mlx(value)


def memory_of(value: Any, *, whole: bool = False) -> Memory | None:
    """From the first element of an array-like object to the end of the last; where `whole`, of all that it is a view
    of, if that can be known. None where the object is not one; NoMemory where it is one that no kernel could use."""
    if isinstance(value, np.ndarray):
        return numpy.memory_of(value, value, whole=whole)
    if is_torch(value):
        return torch.memory_of(value, whole=whole)
    if is_mlx(value):
        return mlx.memory_of(value)
    if isinstance(value, RAW):
        memory = memoryview(value)
        flat = np.frombuffer(memory, np.uint8) if memory.nbytes else np.zeros(0, np.uint8)
        return numpy.memory_of(flat, value)._replace(dtype="bytes")
    if isinstance(value, (np.generic, str)):
        return None
    return _foreign(value)


def _foreign(value: Any) -> Memory | None:
    found = _buffer(value)
    if found is None and dlpack.has_dlpack(value):
        found = dlpack.memory_of(value)
    if found is not None and type(value).__module__.partition(".")[0] in _IMMUTABLE:
        return found._replace(immutable=True)
    return found


def _buffer(value: Any) -> Memory | None:
    try:
        buffer = memoryview(value)
        seen = np.asarray(buffer)
    except (TypeError, ValueError, BufferError):
        return None  # no buffer, or a format that NumPy does not know
    return numpy.memory_of(seen, (value, buffer))
