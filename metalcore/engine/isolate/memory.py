"""Memory that a worker sees too: files without a place in any folder, whose size nobody can change any more."""

from __future__ import annotations

import ctypes
import fcntl
import math
import mmap
import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from metalcore.engine.options import shown
from metalcore.errors import ArgumentError

_MOST_DIMENSIONS = 32  # of NumPy 1
_MOST_BYTES = 1 << 44
_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_WRITE = 1033, 1, 2, 4, 8


def sealed_file(name: str, size: int) -> int:
    """A descriptor of zeros. A worker that shortened them would end this process at its next access (SIGBUS)."""
    made = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(made, size)
        fcntl.fcntl(made, _ADD_SEALS, _SEAL_SEAL | _SEAL_SHRINK | _SEAL_GROW)
    except BaseException:
        os.close(made)
        raise
    return made


def code_file(code: bytes) -> int:
    """A descriptor of machine code that nobody changes any more."""
    made = os.memfd_create("metalcore-kernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(made, "wb", closefd=False) as file:
            file.write(code)
        fcntl.fcntl(made, _ADD_SEALS, _SEAL_SEAL | _SEAL_SHRINK | _SEAL_GROW | _SEAL_WRITE)
    except BaseException:
        os.close(made)
        raise
    return made


class Segment:
    """One such file and where this process has it."""

    __slots__ = ("_closed", "address", "descriptor", "size")

    def __init__(self, descriptor: int, address: int, size: int) -> None:
        self.descriptor, self.address, self.size = descriptor, address, size
        self._closed = False

    def open_to_read(self) -> int:
        """A descriptor through which nobody can ever write."""
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.descriptor)


class Arena:
    """Where copies of ordinary arrays go; it grows by being replaced."""

    def __init__(self, size: int) -> None:
        descriptor = sealed_file("metalcore-arena", size)
        self._map = mmap.mmap(descriptor, size)
        self.segment = Segment(descriptor, _address(self._map), size)

    def close(self) -> None:
        self.segment.close()


def _address(memory: mmap.mmap) -> int:
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])


class _Known:
    """The shared arrays of this process, by address."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # an array may be collected while another is made
        self._starts: list[int] = []
        self._segments: dict[int, Segment] = {}
        self.changes = 0  # how often an array came or went

    def add(self, memory: mmap.mmap, segment: Segment) -> None:
        with self.lock:
            self._segments[segment.address] = segment
            self.changes += 1
            self._starts = sorted(list(self._segments))
        weakref.finalize(memory, self._remove, segment).atexit = False

    def _remove(self, segment: Segment) -> None:
        with self.lock:
            if self._segments.get(segment.address) is segment:
                del self._segments[segment.address]
                self.changes += 1
                self._starts = sorted(list(self._segments))
        segment.close()

    def find(self, address: int, size: int) -> Segment | None:
        """The segment that holds all of this memory."""
        starts = self._starts
        if not starts:
            return None
        at = bisect_right(starts, address)
        found = self._segments.get(starts[at - 1]) if at else None
        return found if found is not None and address + size <= found.address + found.size else None

    def holds(self, segment: Segment) -> bool:
        return self._segments.get(segment.address) is segment


known = _Known()


def shared_array(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Zeros in memory that workers of `metalcore.isolate` share: nothing is copied for a launch.

    A view of it is as good, and so is `torch.from_numpy` of it. An array that a kernel only reads is shown to the
    worker read-only; one that a kernel writes holds what was written, also where the worker died on the way.

    >>> x = shared_array((2, 3), "int32")
    >>> x.tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ArgumentError(f"shared_array: dtype={shown(dtype)} is no dtype of NumPy") from None
    if kind.hasobject:
        raise ArgumentError("shared_array: an array of Python objects has no memory that a kernel could read")
    if not kind.itemsize or kind.subdtype is not None:
        raise ArgumentError(f"shared_array: dtype={shown(dtype)} must have a size and be no array itself")
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape) if isinstance(shape, Iterable) else None
    if sizes is None or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in sizes):
        raise ArgumentError(f"shared_array: {shown(shape)} is not a shape: give one size, or some, none negative")
    if len(sizes) > _MOST_DIMENSIONS:
        raise ArgumentError(f"shared_array: {len(sizes)} dimensions, and an array has at most {_MOST_DIMENSIONS}")
    count = math.prod(int(n) for n in sizes)
    if count * kind.itemsize > _MOST_BYTES or max(sizes, default=0) > _MOST_BYTES:
        raise ArgumentError(f"shared_array: {shown(shape)} of {kind} is more than {_MOST_BYTES} bytes")
    size = max(mmap.PAGESIZE, -(-count * kind.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE)
    descriptor = sealed_file("metalcore-array", size)
    try:
        memory = mmap.mmap(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise ArgumentError(f"shared_array: there is no room for {size} bytes ({shown(shape)} of {kind})") from None
    known.add(memory, Segment(descriptor, _address(memory), size))
    array: np.ndarray[Any, Any] = np.frombuffer(memory, kind, count).reshape(sizes)
    return array


def read_word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def write_word(address: int, value: int) -> None:
    ctypes.c_uint64.from_address(address).value = value


def copy(to: int, source: int, size: int) -> None:
    ctypes.memmove(to, source, size)
