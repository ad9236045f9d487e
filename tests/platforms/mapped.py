"""Tests of the engine with kernels that were made for macOS, on Linux: their files are mapped by the loader below.

python -m tests.platforms.mapped [ARG of pytest...]      by default the language and the library of MSL

The processor is the same, and a kernel asks nothing of its system, so what dyld would do is little: put the segments
where they belong. The runtime, threads and signals are Linux's.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from metalcore.engine import pipeline
from metalcore.engine.codegen import macho
from metalcore.engine.codegen.closed_object import check_object
from metalcore.engine.model import NativeKernel, ScalarKernel, Variant
from metalcore.engine.optimiser import llvm
from metalcore.engine.runtime import launch
from metalcore.engine.target import MACOS, Platform, this_platform

TESTS = ("tests/engine/language", "tests/engine/include")
_FIXUPS, _CHAINED = 0x80000022, 0x80000034


class Mapped:
    """A kernel's Mach-O file in memory."""

    loaded = 0

    def __init__(self, path: str) -> None:
        check_object(path)  # it imports nothing
        data = Path(path).read_bytes()
        places = dict(macho.commands(data))
        fixups = struct.unpack_from("<II", data, places[_FIXUPS] + 8) if _FIXUPS in places else (0, 0)
        if _CHAINED in places or any(data[fixups[0] : sum(fixups)]):
            raise NotImplementedError(f"{path} has addresses that depend on where it lies")
        segments = [struct.unpack_from("<QQQQ", data, at + 24) for kind, at in macho.commands(data) if kind == 0x19]
        everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._memory = mmap.mmap(-1, max(start + size for start, size, _, _ in segments), prot=everything)
        for start, _, offset, length in segments:
            self._memory[start : start + length] = data[offset : offset + length]
        first = ctypes.addressof(ctypes.c_byte.from_buffer(self._memory))
        self.mc_run = ctypes.CFUNCTYPE(None)(first + macho.address(data, "mc_run"))
        Mapped.loaded += 1


def build(kernel: ScalarKernel, variant: Variant) -> NativeKernel:
    """As on a Mac with this processor."""
    target = replace(llvm.this_target(), platform=Platform(MACOS, this_platform().machine))
    return _build(kernel, variant, target)


_build = pipeline.build


@contextlib.contextmanager
def in_place() -> Iterator[None]:
    """What this process compiles is for macOS, and runs."""
    folder = tempfile.TemporaryDirectory()
    own_cache: Any = mock.patch.dict("os.environ", METALCORE_CACHE=folder.name)
    with (
        folder,
        own_cache,
        mock.patch.object(pipeline, "build", build),
        mock.patch.object(launch, "load_shared", Mapped),
    ):
        yield


if __name__ == "__main__":
    with in_place():
        status = pytest.main(["-q", "-p", "no:cacheprovider", *(sys.argv[1:] or TESTS)])
    print(f"{Mapped.loaded} kernels for {MACOS} ran here")
    sys.exit(status)
