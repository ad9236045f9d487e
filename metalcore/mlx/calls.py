"""Python functions that the MLX primitive calls by a number: one C function for all of them, which never goes away.

ctypes takes Python's lock before it calls one, whether the thread holds it or not, and gives it back after.
"""

from __future__ import annotations

import _thread
import ctypes
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

Function = Callable[[Sequence[int]], None]
"""Gets the addresses of a plan's arrays, inputs first; 0 or anything where an array has no elements."""
_signature = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64
)
GOOD = 1  # else what is written at `words` is the error


class Calls:
    """Kept by number until the last step that has the number is gone. `dead` is the library's: it gives numbers that no
    step has any more, and 0 at the end. A step may end on any thread, where Python must not be waited for."""

    def __init__(self, dead: Callable[[], int]) -> None:
        self._dead, self._numbers = dead, count(1)
        self._kept: dict[int, Function] = {}
        self._function = _signature(self._call)
        self.address: Any = ctypes.cast(self._function, ctypes.c_void_p)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, function: Function) -> int:
        while number := self._dead():
            self._kept.pop(number, None)
        number = next(self._numbers)
        self._kept[number] = function
        return number

    def _call(self, number: int, addresses: Any, n: int, words: int, room: int) -> int:
        try:
            self._kept[number](addresses[:n])
        except BaseException as error:  # C++ raises it, as an error with these words
            text = (str(error) or type(error).__name__).encode()[: room - 1].decode(errors="ignore").encode()
            ctypes.memmove(words, text + b"\0", len(text) + 1)
            if isinstance(error, KeyboardInterrupt):
                _thread.interrupt_main()
            return 0
        return GOOD
