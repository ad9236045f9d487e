"""Memory between pages that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
CANARY = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """Pages for one array, with a guard page in front and one behind; bytes that are not the array's are canaries."""

    def __init__(self, size: int) -> None:
        self.room = -(-max(size, 1) // PAGE) * PAGE + PAGE
        self.start = _libc.mmap(None, self.room + 2 * PAGE, 0, 0x22, -1, 0)  # PROT_NONE, private and anonymous
        if self.start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"no memory for an array of {size} bytes")
        if _libc.mprotect(self.start + PAGE, self.room, 3):
            raise OSError(ctypes.get_errno(), "mprotect")
        memory = (ctypes.c_char * self.room).from_address(self.start + PAGE)
        self.all = np.frombuffer(memory, np.uint8)

    def place(self, data: np.ndarray[Any, Any], placement: str) -> np.ndarray[Any, Any]:
        """Puts bytes at the end, at the start or in the middle of the pages; returns the array there."""
        size = len(data)
        at = {"end": self.room - size, "start": 0, "middle": (self.room - size) // 2 // 16 * 16}[placement]
        self.all[:] = CANARY
        self.all[at : at + size] = data
        self.at, self.size = at, size
        return self.all[at : at + size]

    def touched(self) -> int:
        """How many canary bytes have changed."""
        before, behind = self.all[: self.at], self.all[self.at + self.size :]
        return int(np.count_nonzero(before != CANARY) + np.count_nonzero(behind != CANARY))

    def close(self) -> None:
        if self.start:
            _libc.munmap(self.start, self.room + 2 * PAGE)
            self.start = 0


class Pages:
    """Guarded pages that are used again and again."""

    def __init__(self) -> None:
        self.free: dict[int, list[Guarded]] = {}
        self.used: list[Guarded] = []

    def array(self, data: np.ndarray[Any, Any], placement: str) -> np.ndarray[Any, Any]:
        rooms = -(-max(len(data), 1) // PAGE)
        spare = self.free.setdefault(rooms, [])
        pages = spare.pop() if spare else Guarded(len(data))
        self.used.append(pages)
        return pages.place(data, placement)

    def touched(self) -> int:
        return sum(pages.touched() for pages in self.used)

    def release(self) -> None:
        for pages in self.used:
            self.free[(pages.room - PAGE) // PAGE].append(pages)
        self.used = []
