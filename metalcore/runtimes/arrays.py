"""Arrays of one framework, as the engine's runtime needs them: allocate, find the memory, name the dtype."""

from __future__ import annotations

import math
from contextlib import suppress
from ctypes import addressof, c_char
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from metalcore.dropins.arrays import mlx_module, torch_module
from metalcore.engine.runtime.arrays import short_storage, torch_room
from metalcore.errors import ArgumentError, LinAlgError


class Arrays(Protocol):
    """One framework's arrays."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...

    def memory(self, array: Any) -> tuple[int, int]:
        """Address and size in bytes of a contiguous array."""

    def contiguous(self, array: Any) -> Any: ...

    def dtype(self, array: Any) -> str: ...

    def cast(self, array: Any, dtype: str) -> Any:
        """The array in another dtype; itself where it has that already."""

    @property
    def linalg_error(self) -> type[Exception]:
        """What the framework raises for a matrix that has no factorisation."""

    def sort(self, indices: Any) -> tuple[Any, Any]:
        """A vector of integers sorted, and where each came from (int64); equal ones stay in their order."""


class TorchArrays:
    """Tensors on one device."""

    def __init__(self, device: Any = "cpu") -> None:
        torch = torch_module()
        self._empty = torch.empty if str(device) == "cpu" else partial(torch.empty, device=device)
        self._names = {getattr(torch, n): n for n in _TORCH_NAMES}
        self._dtypes = {n: t for t, n in self._names.items()}

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._empty(shape, dtype=self._dtypes[dtype])

    def memory(self, array: Any) -> tuple[int, int]:
        address, size = array.data_ptr(), array.nbytes
        if size and size > torch_room(array):  # a view of no elements may begin behind its storage
            raise ArgumentError(f"an argument must be one block of memory, not {short_storage(array, size)}")
        return address, size

    def contiguous(self, array: Any) -> Any:
        return array if array.is_contiguous() else array.contiguous()

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(self._dtypes[dtype])

    @property
    def linalg_error(self) -> type[Exception]:
        error: type[Exception] = torch_module().linalg.LinAlgError
        return error

    def sort(self, indices: Any) -> tuple[Any, Any]:
        found: tuple[Any, Any] = indices.reshape(-1).sort(stable=True)
        return found

    def dtype(self, array: Any) -> str:
        dtype = array.dtype
        return self._names.get(dtype) or str(dtype).removeprefix("torch.")


_TORCH_NAMES = (
    *("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "uint32", "bool"),
)


class NumpyArrays:
    """NumPy arrays; bfloat16 is that of ml_dtypes."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, _numpy_dtype(dtype))

    def memory(self, array: Any) -> tuple[int, int]:
        return array.__array_interface__["data"][0], array.nbytes

    def contiguous(self, array: Any) -> Any:
        return np.ascontiguousarray(array).reshape(array.shape)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.astype(_numpy_dtype(dtype), copy=False)

    linalg_error = np.linalg.LinAlgError

    def sort(self, indices: Any) -> tuple[Any, Any]:
        flat = indices.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return flat[order], order

    def dtype(self, array: Any) -> str:
        return _numpy_name(array.dtype)


_numpy_name = cache(str)  # of a dtype: numpy takes a microsecond for it


def _numpy_dtype(name: str) -> Any:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


class MlxArrays:
    """Arrays of mlx on the CPU. Inputs are evaluated and used in place; what the engine writes was allocated just
    before, and nobody else holds it."""

    def __init__(self) -> None:
        self._mx = mx = mlx_module()
        self._names = {getattr(mx, mlx_name(n)): n for n in _MLX_NAMES}
        self._dtypes = {n: t for t, n in self._names.items()}
        self._zeros = np.zeros(1 << 20, np.uint8)  # never written: its pages are the system's page of zeros
        self._numpy = {n: np.dtype(n) for n in _MLX_NAMES if n not in ("bfloat16", "float64")}
        with suppress(ImportError):
            self._numpy["bfloat16"] = _numpy_dtype("bfloat16")
        self._nothing: dict[str, Any] = {}

    def _evaluated(self, shape: tuple[int, ...], dtype: str) -> Any:
        array = self._mx.contiguous(self._mx.zeros(shape, self._dtypes[dtype]))
        self._mx.eval(array)
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """mx.array copies from NumPy at once, in 3 microseconds; mx.zeros is evaluated by another thread, in 50."""
        if shape == (0,):  # a gradient that is not wanted: one array for all of them, since nothing is written to it
            if dtype not in self._nothing:
                self._nothing[dtype] = self._evaluated(shape, dtype)
            return self._nothing[dtype]
        kind = self._numpy.get(dtype)
        if kind is None or 0 in shape:  # mlx makes float32 of NumPy's float64
            return self._evaluated(shape, dtype)
        size = math.prod(shape) * kind.itemsize
        zeros = self._zeros
        if size > zeros.size:
            zeros = self._zeros = np.zeros(2 * size, np.uint8)
        return self._mx.array(zeros[:size].view(kind).reshape(shape))

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
        if 0 < view.nbytes <= _SMALL and self._names.get(array.dtype) in _BUFFERS:
            return self._mx.array(np.ascontiguousarray(view))
        copy = self._mx.contiguous(array)
        self._mx.eval(copy)
        return copy

    def cast(self, array: Any, dtype: str) -> Any:
        if self.dtype(array) == dtype:
            return array
        copy = array.astype(self._dtypes[dtype])
        self._mx.eval(copy)
        return copy

    linalg_error = LinAlgError

    def sort(self, indices: Any) -> tuple[Any, Any]:
        found = mlx_sort(indices)
        self._mx.eval(*found)
        return found

    def dtype(self, array: Any) -> str:
        dtype = array.dtype
        return self._names.get(dtype) or str(dtype).rpartition(".")[2]


_MLX_NAMES = _TORCH_NAMES
_BUFFERS = {*_MLX_NAMES} - {"bfloat16", "float64"}  # dtypes that NumPy and mlx give each other as they are
_SMALL = 1 << 20  # bytes


def mlx_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def mlx_sort(indices: Any) -> tuple[Any, Any]:
    """A vector of integers sorted, and where each came from (int64). Keys are all different, so that the order of equal
    ones does not rest on how mlx sorts."""
    mx = mlx_module()
    flat = indices.reshape(-1)
    keys = flat.astype(mx.int64) * flat.size + mx.arange(flat.size, dtype=mx.int64)
    order = mx.argsort(keys)
    return flat[order], order.astype(mx.int64)
