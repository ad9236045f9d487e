"""The C++ peers, built by the same clang as the engine's kernels and loaded through ctypes."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metalcore.engine.toolchain import link_shared, run_zig

FOLDER = Path(__file__).resolve().parent.parent / "peers"
FLAGS = ("-O3", "-march=native", "-std=c++20", "-fPIC", "-fno-exceptions", "-Wall", "-Wextra", "-Werror")
Array = NDArray[np.float32]


def build(output: Path) -> None:
    """All peers as one shared object. Two processes may do it at once: each works in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for source in sorted(FOLDER.glob("*.cpp")):
            made = str(Path(folder) / f"{source.stem}.o")
            run_zig(["clang", "-c", *FLAGS, str(source), "-o", made], f"compiling {source.name}")
            objects.append(made)
        link_shared(objects, str(output))


@functools.cache
def library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


class Peers:
    """Calls of the C++ functions: arrays become addresses, ints sizes, floats floats."""

    def __init__(self, path: Path) -> None:
        self._library = library(str(path))

    def bind(self, name: str, threads: int, *arguments: Array | int | float) -> Callable[[], object]:
        function = getattr(self._library, name)
        function.restype = None
        values: list[object] = [ctypes.c_int(threads)]
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                values.append(ctypes.c_void_p(argument.ctypes.data))
            elif isinstance(argument, int):
                values.append(ctypes.c_size_t(argument))
            else:
                values.append(ctypes.c_float(argument))

        def call(_kept: object = arguments) -> object:  # the arrays live as long as the call that has their addresses
            return function(*values)

        return call


def copy_call(target: Array, source: Array, size: int) -> Callable[[], object]:
    """libc's memcpy of `size` bytes."""
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.restype = ctypes.c_void_p
    addresses = ctypes.c_void_p(target.ctypes.data), ctypes.c_void_p(source.ctypes.data), ctypes.c_size_t(size)

    def call(_kept: object = (target, source)) -> object:
        return memcpy(*addresses)

    return call
