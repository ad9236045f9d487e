"""The memory behind an object of any framework. Nothing is copied, no framework is imported for it, and no module of
one that is not there: the first call of a kernel is felt."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from metalcore.arrays import numpy
from metalcore.arrays.memory import Memory
from metalcore.forking import import_whole

RAW = (bytes, bytearray, ctypes.Structure, ctypes.Union, ctypes.Array)
"""Objects that are bytes without a type of elements."""
_IMMUTABLE = ("jax", "jaxlib")  # frameworks whose arrays never change once made, whatever their buffers say


class _Nothing:
    pass


def tensor_type() -> Any:
    """torch.Tensor, or a type that nothing is of where torch is not imported."""
    return getattr(sys.modules.get("torch"), "Tensor", _Nothing)


def is_torch(value: object) -> bool:
    """Whether the value is a torch tensor."""
    return isinstance(value, tensor_type())


def mlx_type() -> Any:
    """mlx.core.array, or a type that nothing is of where mlx is not imported."""
    return getattr(sys.modules.get("mlx.core"), "array", _Nothing)


def is_mlx(value: object) -> bool:
    """Whether the value is an mlx array."""
    return isinstance(value, mlx_type())


@cache
def module(name: str) -> Any:
    """A module of this package, imported when the first array that needs it comes."""
    import_whole(f"metalcore.arrays.{name}")
    return import_module(f"metalcore.arrays.{name}")


def is_array(value: object) -> bool:
    """Whether the value is an array of NumPy, torch or mlx."""
    return isinstance(value, np.ndarray) or is_torch(value) or is_mlx(value)


def memory_of(value: Any, *, whole: bool = False) -> Memory | None:
    """From the first element of an array-like object to the end of the last; where `whole`, of all that it is a view
    of, if that can be known. None where the object is not one; NoMemory where it is one that no kernel could use."""
    found: Memory | None
    if isinstance(value, np.ndarray):
        return numpy.memory_of(value, value, whole=whole)
    if is_torch(value):
        found = module("torch").memory_of(value, whole=whole)
        return found
    if is_mlx(value):
        found = module("mlx").memory_of(value)
        return found
    if isinstance(value, RAW):
        memory = memoryview(value)
        flat = np.frombuffer(memory, np.uint8) if memory.nbytes else np.zeros(0, np.uint8)
        return numpy.memory_of(flat, value)._replace(dtype="bytes")
    if isinstance(value, (np.generic, str)):
        return None
    return _foreign(value)


def _foreign(value: Any) -> Memory | None:
    found = _buffer(value)
    if found is None and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        found = module("dlpack").memory_of(value)
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
