"""Landlock by its system calls: which files a process may touch. Nothing of it can be taken back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from metalcore.engine.isolate.kernel import libc, system_call

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4 | 1 << 5, 1 << 7, 1 << 8
_MAKE = sum(1 << bit for bit in range(6, 13))  # also devices, sockets, FIFOs and symbolic links
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL
_FIRST = {_REFER: 2, _TRUNCATE: 3, _IOCTL: 5}  # the version that knows the right
_NETWORK, _NETWORK_VERSION = 0b11, 4  # bind and connect of TCP
_SCOPES, _SCOPES_VERSION = 0b11, 6  # abstract sockets and signals stay inside

READ = READ_FILE | READ_DIR
CHANGE = READ | WRITE_FILE | _REMOVE | _MAKE_FOLDER | _MAKE_FILE | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def version() -> int:
    """The kernel's version of Landlock; 0 where it has none, or where it is turned off."""
    found = libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(found))


def restrict(allowed: Iterable[tuple[str, int]]) -> None:
    """From here on this thread, and what it starts, reaches nothing but these files and folders, in these ways."""
    known = version()
    files = (
        EXECUTE | READ | WRITE_FILE | _REMOVE | _MAKE | sum(right for right, since in _FIRST.items() if known >= since)
    )
    rules = _Ruleset(files, _NETWORK if known >= _NETWORK_VERSION else 0, _SCOPES if known >= _SCOPES_VERSION else 0)
    size = 8 if known < _NETWORK_VERSION else 16 if known < _SCOPES_VERSION else 24
    ruleset = system_call(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path, rights in allowed:
            _allow(ruleset, path, rights & files)
        system_call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # what is not there needs no permission
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        rule = _Beneath(rights, opened)
        system_call(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(opened)
