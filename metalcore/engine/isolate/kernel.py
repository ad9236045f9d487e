"""System calls that Python has no name for, through the C library that is loaded already."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

SET_PDEATHSIG, SET_NO_NEW_PRIVS = 1, 38
NEW_USER, NEW_PID, NEW_NET, NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000


@cache
def libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    ]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def failed(what: str) -> OSError:
    """The error of the call that has just failed."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def system_call(number: int, *arguments: Any) -> int:
    result = int(libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise failed(f"system call {number}")
    return result


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero) != 0:
        raise failed(f"prctl {option}")


def unshare(flags: int) -> None:
    if libc().unshare(ctypes.c_int(flags)) != 0:
        raise failed("unshare")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def drop_capabilities() -> None:
    """root without the rights of root, also of the root of a user namespace."""
    header = _CapabilityHeader(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc().capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        raise failed("capset")
