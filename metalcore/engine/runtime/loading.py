"""Shared objects into this process."""

from __future__ import annotations

import ctypes
import os

from metalcore.forking import unforked


def load_shared(path: str) -> ctypes.CDLL:
    """Loads a shared object, from memory where its folder's file system does not allow code to be run."""
    with unforked():
        try:
            return ctypes.CDLL(path)
        except OSError:
            if not hasattr(os, "memfd_create"):
                raise
            return load_from_memory(path)


def load_from_memory(path: str) -> ctypes.CDLL:
    """Loads a copy of the file that has no place in any folder."""
    with open(path, "rb") as file:
        data = file.read()
    memory = os.memfd_create(os.path.basename(path))
    with os.fdopen(memory, "wb", closefd=False) as copy:
        copy.write(data)
    # It stays open: the loader knows libraries by name, and would take the next one with this number for this one.
    return ctypes.CDLL(f"/proc/self/fd/{memory}")
