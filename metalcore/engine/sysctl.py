"""What macOS says of the machine; elsewhere, nothing. Built, not run: no Mac has run it yet."""

from __future__ import annotations

import sys


def sysctl(name: str) -> bytes:
    """The value of a name, `hw.l2cachesize` for one; empty where the system does not know it."""
    if sys.platform != "darwin":
        return b""
    import ctypes

    ask = ctypes.CDLL(None).sysctlbyname
    ask.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    found, size = ctypes.create_string_buffer(4096), ctypes.c_size_t(4096)
    if ask(name.encode(), found, ctypes.byref(size), None, 0) != 0:
        return b""
    return found.raw[: size.value]


def number(name: str) -> int:
    """The same of a number; 0 where it is not known."""
    return int.from_bytes(sysctl(name), "little")  # of 4 or 8 bytes
