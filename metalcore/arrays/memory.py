"""What the memory of an array is, whatever framework it is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class NoMemory(Exception):
    """Why an array has no memory that a kernel could use: it begins with "must", and who catches it says what must."""


class Memory(NamedTuple):
    """The memory of an array, from its first element on."""

    address: int
    size: int  # bytes reachable upwards from the address
    dtype: str  # "float32", "bfloat16", ...; "bytes" where the object has no element type
    owner: object  # keeps it alive
    writable: bool = True
    contiguous: bool = True
    immutable: bool = False  # its framework does not allow writes
    has_holes: bool = False  # bytes between its elements belong to others

    @property
    def changeable(self) -> bool:
        """Whether a kernel may write anywhere in it."""
        return self.writable and not self.immutable and not self.has_holes


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element to the end of the highest one; strides are in bytes.

    >>> extent((2, 3), (16, 4), 4), extent((3,), (-4,), 4), extent((0, 3), (12, 4), 4)
    (28, 4, 0)
    """
    if 0 in shape:
        return 0
    return itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)


def elsewhere(place: object) -> NoMemory:
    """On a device whose memory the engine does not see."""
    return NoMemory(f"must be in CPU memory, and is on {place}")


def scattered(what: str) -> NoMemory:
    """There, but in no form that a kernel could read."""
    return NoMemory(f"must be one block of memory, not {what}")
