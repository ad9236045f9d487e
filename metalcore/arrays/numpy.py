"""NumPy arrays, with bfloat16 of ml_dtypes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from metalcore.arrays.dtypes import spelled
from metalcore.arrays.memory import Memory, NoMemory, extent

Array = np.ndarray[Any, Any]


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def memory_of(array: Array, owner: object, *, whole: bool = False) -> Memory:
    """Its memory, to the end of its highest element, or, where `whole`, of what it is a view of."""
    dtype, flags = array.dtype, array.flags
    if dtype.hasobject:
        raise NoMemory("must be an array of numbers, not of Python objects")
    if not dtype.isnative:
        raise NoMemory(f"must have the byte order of this machine, not the foreign byte order of dtype {dtype.str!r}")
    address, is_compact = address_of(array), flags.c_contiguous
    size = array.nbytes if is_compact else extent(array.shape, array.strides, array.itemsize)
    has_holes = size > array.nbytes
    if whole and size and not (is_compact and array.base is None):
        size = max(0, _end(array) - address)
    return Memory(address, size, name_of(dtype), (owner, array), flags.writeable, is_compact, has_holes=has_holes)


def _end(array: Array) -> int:
    """One past the last byte of the memory that the array is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return address_of(root) + extent(root.shape, root.strides, root.itemsize)


@lru_cache(256)  # NumPy takes a microsecond for it
def name_of(dtype: np.dtype[Any]) -> str:
    return "struct" if issubclass(dtype.type, np.void) else spelled(dtype)


def strides_of(array: Array) -> tuple[int, ...]:
    """In elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of that name; an ImportError where it is bfloat16 and ml_dtypes is not installed."""
    if name != "bfloat16":
        return np.dtype(name)
    ml_dtypes: Any = importlib.import_module("ml_dtypes")
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


class NumpyArrays:
    """`Arrays` of NumPy."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype_of(dtype))

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        return partial(np.empty, shape, dtype_of(dtype))

    def memory(self, array: Any) -> tuple[int, int]:
        return array.__array_interface__["data"][0], array.nbytes

    def contiguous(self, array: Any) -> Any:
        if type(array) is np.ndarray and array.flags.c_contiguous:
            return array
        return np.ascontiguousarray(array).reshape(array.shape)

    def strides(self, array: Any) -> tuple[int, ...]:
        return strides_of(array)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.astype(dtype_of(dtype), copy=False)

    linalg_error = np.linalg.LinAlgError

    def sort(self, indices: Any) -> tuple[Any, Any]:
        flat = indices.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return flat[order], order

    def dtype(self, array: Any) -> str:
        return name_of(array.dtype)
