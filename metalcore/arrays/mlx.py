"""mlx arrays as memory, and what the runtimes ask of mlx. It is not imported here before it is needed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import suppress
from ctypes import addressof, c_char
from functools import partial
from typing import Any

import numpy as np

from metalcore.arrays import numpy
from metalcore.arrays.dtypes import NAMES, spelled
from metalcore.arrays.memory import Memory
from metalcore.errors import LinAlgError
from metalcore.packages import needed_for

_BUFFERS = {*NAMES, "uint16", "uint64", "complex64"} - {"bfloat16", "float64"}
"""Dtypes that NumPy and mlx give each other as they are: mlx makes float32 of NumPy's float64."""
_SMALL = 1 << 20  # bytes


def mlx_module() -> Any:
    """mlx.core, untyped: it may be absent, and its types change from version to version."""
    with needed_for("this call"):
        return importlib.import_module("mlx.core")


def dtype_of(name: str) -> Any:
    """mlx's dtype of that name."""
    return getattr(mlx_module(), "bool_" if name == "bool" else name)


def cast(array: Any, dtype: str) -> Any:
    """The array in another dtype, as a step of mlx's graph."""
    return array.astype(dtype_of(dtype))


def zeros(shape: tuple[int, ...], dtype: str) -> Any:
    """A new array, as a step of mlx's graph."""
    return mlx_module().zeros(shape, dtype_of(dtype))


def numpy_view(array: Any) -> np.ndarray[Any, Any]:
    """An array, evaluated, as a NumPy view of the same memory and strides; bfloat16 is seen as its bits."""
    mx = mlx_module()
    mx.eval(array)
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
        mx.eval(array)
    return np.asarray(array)


def memory_of(array: Any) -> Memory:
    """Its memory, to the end of its highest element: mlx does not say what it is a view of."""
    return numpy.memory_of(numpy_view(array), array)._replace(dtype=spelled(array.dtype), immutable=True)


def sort(indices: Any) -> tuple[Any, Any]:
    """A vector of integers sorted, and where each came from (int64). Keys are all different, so that the order of equal
    ones does not rest on how mlx sorts."""
    mx = mlx_module()
    flat = indices.reshape(-1)
    keys = flat.astype(mx.int64) * flat.size + mx.arange(flat.size, dtype=mx.int64)
    order = mx.argsort(keys)
    return flat[order], order.astype(mx.int64)


class MlxArrays:
    """`Arrays` of mlx, on the CPU. Inputs are evaluated and used in place; what the engine writes was allocated just
    before, and nobody else holds it."""

    def __init__(self) -> None:
        self._mx = mlx_module()
        self._names = {dtype_of(name): name for name in NAMES}
        self._zeros = np.zeros(1 << 20, np.uint8)  # never written: its pages are the system's page of zeros
        self._numpy = {name: np.dtype(name) for name in _BUFFERS}
        with suppress(ImportError):
            self._numpy["bfloat16"] = numpy.dtype_of("bfloat16")
        self._nothing: dict[str, Any] = {}

    def _evaluated(self, shape: tuple[int, ...], dtype: str) -> Any:
        array = self._mx.contiguous(self._mx.zeros(shape, dtype_of(dtype)))
        self._mx.eval(array)
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        if shape == (0,):  # a gradient that is not wanted: one array for all of them, since nothing is written to it
            if dtype not in self._nothing:
                self._nothing[dtype] = self._evaluated(shape, dtype)
            return self._nothing[dtype]
        return self.maker(shape, dtype)()

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        """mx.array copies from NumPy at once, in 3 microseconds; mx.zeros is evaluated by another thread, in 50."""
        kind = self._numpy.get(dtype)
        if kind is None or 0 in shape:
            return partial(self._evaluated, shape, dtype)
        size = math.prod(shape) * kind.itemsize
        zeros = self._zeros
        if size > zeros.size:
            zeros = self._zeros = np.zeros(2 * size, np.uint8)
        return partial(self._mx.array, zeros[:size].view(kind).reshape(shape))

    def memory(self, array: Any) -> tuple[int, int]:
        if array.size == 0:
            return 0, 0
        return addressof(c_char.from_buffer(array)), array.nbytes  # raises where the array is not contiguous

    def contiguous(self, array: Any) -> Any:
        """The array, evaluated, or a copy whose rows lie one after the other. NumPy makes a small one at once, in 10
        microseconds; mlx by another thread, in 50."""
        view = memoryview(array)
        if view.c_contiguous:
            return array
        if 0 < view.nbytes <= _SMALL and self.dtype(array) in _BUFFERS:
            return self._mx.array(np.ascontiguousarray(view))
        copy = self._mx.contiguous(array)
        self._mx.eval(copy)
        return copy

    def strides(self, array: Any) -> tuple[int, ...]:
        return numpy.strides_of(numpy_view(array))

    def cast(self, array: Any, dtype: str) -> Any:
        if self.dtype(array) == dtype:
            return array
        copy = array.astype(dtype_of(dtype))
        self._mx.eval(copy)
        return copy

    linalg_error = LinAlgError

    def sort(self, indices: Any) -> tuple[Any, Any]:
        found = sort(indices)
        self._mx.eval(*found)
        return found

    def dtype(self, array: Any) -> str:
        dtype = array.dtype
        return self._names.get(dtype) or spelled(dtype)
