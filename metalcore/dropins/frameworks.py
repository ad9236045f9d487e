"""The three array frameworks behind one small interface, for `metal_kernel`: inputs in, new outputs out."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from metalcore.dropins.arrays import (
    Binding,
    bind_elements,
    is_mlx,
    is_torch,
    mlx_module,
    mlx_view,
    torch_module,
)
from metalcore.dropins.signature import MSL_TYPES
from metalcore.errors import ArgumentError

_SMALL = 1 << 16  # elements of an array that is kept to be copied


class KernelInputError(ArgumentError, ValueError):
    """An input, output or option that a metal_kernel call cannot take; MLX raises ValueError here."""


class Framework(Protocol):
    """What metal_kernel needs of an array framework."""

    def array(self, value: Any, where: str) -> Any:
        """A Python scalar or an array as an array of this framework."""

    def dtype_name(self, array: Any, where: str) -> str:
        """Its element type by NumPy's name."""

    def row_contiguous(self, array: Any) -> Any:
        """The array itself, or a copy whose rows lie one after the other."""

    def strides(self, array: Any) -> tuple[int, ...]:
        """Strides in elements."""

    def bind(self, array: Any, where: str) -> Binding:
        """Its memory."""

    def maker(self, shape: tuple[int, ...], dtype: str, init: float | None) -> Callable[[], Any]:
        """Makes new arrays, filled where a value is given."""

    def bind_new(self, array: Any, fresh: bool) -> Binding:
        """The memory of such an array, which nobody else holds yet, so that it may be written to."""

    def apply(self, run: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
        """Run the kernel on the arrays, known to the framework's gradients as a step without one."""


def framework_of(inputs: Sequence[Any], dtypes: Sequence[Any]) -> Framework:
    """The inputs decide; where there is no torch or mlx array among them, the output dtypes do."""
    kinds = {name for value in inputs for name, test in (("torch", is_torch), ("mlx", is_mlx)) if test(value)}
    if len(kinds) > 1:
        raise KernelInputError("[metal_kernel] `inputs` mixes torch tensors and mlx arrays")
    if not kinds:
        kinds = {kind for kind in map(_dtype_framework, dtypes) if kind}
    if kinds == {"mlx"}:
        return MlxArrays()
    if kinds == {"torch"}:
        return TorchTensors()
    return NumpyArrays()


def _dtype_framework(dtype: Any) -> str:
    torch, core = sys.modules.get("torch"), sys.modules.get("mlx.core")
    if torch is not None and isinstance(dtype, torch.dtype):
        return "torch"
    if core is not None and isinstance(dtype, core.Dtype):
        return "mlx"
    return ""


def dtype_name(dtype: Any, where: str) -> str:
    """A dtype of any framework by NumPy's name; an error where Metal has no such type."""
    if _dtype_framework(dtype):
        name = str(dtype).rpartition(".")[2].rstrip("_")
    elif isinstance(dtype, str) and dtype == "bfloat16":
        name = dtype
    else:
        try:
            name = np.dtype(dtype).name
        except TypeError as error:
            raise KernelInputError(f"[metal_kernel] {where}: {dtype!r} is not a dtype") from error
    if name not in MSL_TYPES:
        raise KernelInputError(f"[metal_kernel] {where}: Metal has no {name}; it has {', '.join(MSL_TYPES)}")
    return name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of that name; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        ml_dtypes: Any = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise KernelInputError(
            "[metal_kernel] NumPy has no bfloat16: install ml_dtypes, or pass torch or mlx arrays"
        ) from error
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


class NumpyArrays:
    """NumPy arrays, with ml_dtypes' bfloat16."""

    def array(self, value: Any, where: str) -> Any:
        if isinstance(value, np.ndarray):
            return value
        return np.asarray(value, _scalar_dtype(value, where))

    def dtype_name(self, array: Any, where: str) -> str:
        return dtype_name(array.dtype, where)

    def row_contiguous(self, array: Any) -> Any:
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(stride // array.itemsize for stride in array.strides)

    def bind(self, array: Any, where: str) -> Binding:
        return bind_elements(array, where)

    def maker(self, shape: tuple[int, ...], dtype: str, init: float | None) -> Callable[[], Any]:
        made = numpy_dtype(dtype)
        return partial(np.empty, shape, made) if init is None else partial(np.full, shape, init, made)

    def bind_new(self, array: Any, fresh: bool) -> Binding:
        return bind_elements(array, "output")._replace(fresh=fresh)

    def apply(self, run: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
        return run(arrays)


class TorchTensors:
    """CPU tensors of torch."""

    def array(self, value: Any, where: str) -> Any:
        torch = torch_module()

        if is_torch(value):
            if value.is_nested:
                raise KernelInputError(f"[metal_kernel] {where}: a nested tensor has no single block of memory")
            return value
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(value))
        return torch.from_numpy(np.asarray(value, _scalar_dtype(value, where)))

    def dtype_name(self, array: Any, where: str) -> str:
        return dtype_name(array.dtype, where)

    def row_contiguous(self, array: Any) -> Any:
        return array.contiguous()

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(array.stride())

    def bind(self, array: Any, where: str) -> Binding:
        return bind_elements(array, where)

    def maker(self, shape: tuple[int, ...], dtype: str, init: float | None) -> Callable[[], Any]:
        torch = torch_module()

        made = getattr(torch, dtype)
        return partial(torch.empty, shape, dtype=made) if init is None else partial(torch.full, shape, init, dtype=made)

    def bind_new(self, array: Any, fresh: bool) -> Binding:
        return bind_elements(array, "output")._replace(fresh=fresh)

    def apply(self, run: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
        return run(arrays)


class MlxArrays:
    """Arrays of mlx, evaluated and bound with no copy."""

    def array(self, value: Any, where: str) -> Any:
        mx = mlx_module()

        if is_mlx(value):
            return value
        if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
            return mx.array(value)
        raise KernelInputError(f"[metal_kernel] {where}: {type(value).__name__} is neither an array nor a number")

    def dtype_name(self, array: Any, where: str) -> str:
        return dtype_name(array.dtype, where)

    def row_contiguous(self, array: Any) -> Any:
        mx = mlx_module()

        return mx.contiguous(array)

    def strides(self, array: Any) -> tuple[int, ...]:
        view = mlx_view(array)
        return tuple(stride // view.itemsize for stride in view.strides)

    def bind(self, array: Any, where: str) -> Binding:
        return bind_elements(array, where)

    def maker(self, shape: tuple[int, ...], dtype: str, init: float | None) -> Callable[[], Any]:
        """mx.array copies from NumPy at once, in 3 microseconds; mx.zeros is evaluated by another thread, in 50. Zeros
        that nobody writes to take no memory: they are the system's page of zeros."""
        mx = mlx_module()

        kind = getattr(mx, "bool_" if dtype == "bool" else dtype)
        is_known = dtype != "bfloat16" or importlib.util.find_spec("ml_dtypes") is not None
        if init is None and is_known and 0 not in shape:
            return partial(mx.array, np.zeros(shape, numpy_dtype(dtype)))

        def made() -> Any:
            return mx.contiguous(mx.full(shape, mx.array(0 if init is None else init).astype(kind)))

        is_small = 0 < math.prod(shape) <= _SMALL and dtype != "bfloat16"
        return partial(mx.array, np.array(made())) if is_small else made

    def bind_new(self, array: Any, fresh: bool) -> Binding:
        view = mlx_view(array)
        return Binding(view.__array_interface__["data"][0], view.nbytes, (array, view), fresh=fresh)

    def apply(self, run: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
        mx = mlx_module()

        if not arrays:
            return run(arrays)
        step = mx.custom_function(lambda *given: run(given))

        def no_gradient(primals: Any, cotangents: Any, outputs: Any) -> Any:
            # Without this the gradient through the kernel would be zero and nobody would know.
            raise ValueError("[Primitive::vjp] Not implemented for CustomKernel: wrap the call in mx.custom_function")

        step.vjp(no_gradient)
        return list(step(*arrays))


def _scalar_dtype(value: Any, where: str) -> Any:
    """The dtype that MLX gives to a Python number."""
    if isinstance(value, bool):
        return np.bool_
    if isinstance(value, int):
        return np.int32 if -(1 << 31) <= value < 1 << 31 else np.int64
    if isinstance(value, float):
        return np.float32
    if isinstance(value, complex):
        return np.complex64
    if isinstance(value, np.generic):
        return value.dtype
    raise KernelInputError(f"[metal_kernel] {where}: {type(value).__name__} is neither an array nor a number")
