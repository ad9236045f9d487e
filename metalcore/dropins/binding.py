"""Arrays of NumPy, torch and mlx as what goes to a buffer slot."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.arrays.find import is_array, memory_of
from metalcore.arrays.memory import NoMemory
from metalcore.arrays.numpy import address_of
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError


def bind_array(value: Any, where: str, *, whole: bool = True) -> Binding:
    """The memory of an array. Where `whole`, all from its first element to the end of its storage, strides unseen, as
    Metal sees it; else its own elements, and the rest of what it is a view of is not reachable."""
    try:
        memory = memory_of(value, whole=whole) if is_array(value) else None
    except NoMemory as problem:
        raise ArgumentError(f"{where} {problem}") from None
    if memory is None:
        raise ArgumentError(f"{where} must be an array, not {type(value).__name__}")
    return Binding.of(memory)


def aligned_copy(data: bytes | np.ndarray[Any, Any]) -> Binding:
    """A private copy of a few bytes at a 16-byte boundary, as Metal's setBytes gives to a kernel."""
    source = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8)
    room = np.empty(source.size + 16, np.uint8)
    start = -address_of(room) % 16
    copy = room[start : start + source.size]
    copy[:] = source.reshape(-1)
    return Binding(address_of(copy), source.size, room, writable=False)
