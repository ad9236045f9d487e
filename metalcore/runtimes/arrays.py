"""Arrays of one framework, as the engine's runtime needs them: allocate, find the memory, name the dtype."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol

import numpy as np

from metalcore.dropins.arrays import mlx_module, mlx_view, torch_module


class Arrays(Protocol):
    """One framework's arrays."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...

    def memory(self, array: Any) -> tuple[int, int]:
        """Address and size in bytes of a contiguous array."""

    def contiguous(self, array: Any) -> Any: ...

    def dtype(self, array: Any) -> str: ...


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
        return array.data_ptr(), array.nbytes

    def contiguous(self, array: Any) -> Any:
        return array if array.is_contiguous() else array.contiguous()

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

    def dtype(self, array: Any) -> str:
        return str(array.dtype)


def _numpy_dtype(name: str) -> Any:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


class MlxArrays:
    """Evaluated arrays of mlx on the CPU, whose memory NumPy sees; what the engine writes was allocated just before."""

    def __init__(self) -> None:
        self._mx = mlx_module()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        array = self._mx.zeros(shape, getattr(self._mx, _mlx_name(dtype)))
        if math.prod(shape) > 0:
            # zeros may be a broadcast of one element: a copy has memory of its own.
            array = self._mx.contiguous(array)
        self._mx.eval(array)
        return array

    def memory(self, array: Any) -> tuple[int, int]:
        view = mlx_view(array)
        return view.__array_interface__["data"][0], view.nbytes

    def contiguous(self, array: Any) -> Any:
        return self._mx.contiguous(array)

    def dtype(self, array: Any) -> str:
        name = str(array.dtype).rpartition(".")[2]
        return "bool" if name == "bool_" else name


def _mlx_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
