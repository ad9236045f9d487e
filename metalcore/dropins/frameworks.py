"""The three array frameworks as `metal_kernel` needs them: inputs in, new outputs out."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from metalcore.arrays.dtypes import spelled
from metalcore.arrays.find import is_mlx, is_torch
from metalcore.arrays.framework import Arrays
from metalcore.arrays.mlx import MlxArrays, dtype_of, mlx_module
from metalcore.arrays.numpy import NumpyArrays
from metalcore.arrays.numpy import dtype_of as numpy_dtype_of
from metalcore.arrays.torch import TorchArrays, nested, torch_module
from metalcore.dropins.binding import bind_array
from metalcore.dropins.signature import MSL_TYPES
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError

_SMALL = 1 << 16  # elements of an array that is kept to be copied
Run = Callable[[Sequence[Any]], list[Any]]


class KernelInputError(ArgumentError, ValueError):
    """An input, output or option that a metal_kernel call cannot take; MLX raises ValueError here."""


def _run_at_once(run: Run, arrays: Sequence[Any]) -> list[Any]:
    return run(arrays)


@dataclass(frozen=True)
class Framework:
    """What metal_kernel needs of an array framework."""

    arrays: Arrays
    array: Callable[[Any, str], Any]
    """A Python scalar or an array as an array of this framework; where it is, for errors."""
    row_contiguous: Callable[[Any], Any]
    """The array itself, or a copy whose rows lie one after the other."""
    filled: Callable[[tuple[int, ...], str, float], Callable[[], Any]]
    """Makes new arrays that hold a value everywhere."""
    apply: Callable[[Run, Sequence[Any]], list[Any]] = _run_at_once
    """Run the kernel on the arrays, known to the framework's gradients as a step without one."""

    def bind(self, array: Any, where: str) -> Binding:
        """Its memory."""
        return bind_array(array, where, whole=False)

    def bind_new(self, array: Any, fresh: bool) -> Binding:
        """The memory of an array that was just made: nobody else holds it yet, so that it may be written to."""
        return bind_array(array, "output", whole=False)._replace(writable=True, fresh=fresh)

    def maker(self, shape: tuple[int, ...], dtype: str, init: float | None) -> Callable[[], Any]:
        """Makes new arrays, filled where a value is given."""
        try:
            return self.arrays.maker(shape, dtype) if init is None else self.filled(shape, dtype, init)
        except ImportError as error:
            raise KernelInputError(
                "[metal_kernel] NumPy has no bfloat16: install ml_dtypes, or pass torch or mlx arrays"
            ) from error


def framework_of(inputs: Sequence[Any], dtypes: Sequence[Any]) -> Framework:
    """The inputs decide; where there is no torch or mlx array among them, the output dtypes do."""
    kinds = {name for value in inputs for name, test in (("torch", is_torch), ("mlx", is_mlx)) if test(value)}
    if len(kinds) > 1:
        raise KernelInputError("[metal_kernel] `inputs` mixes torch tensors and mlx arrays")
    if not kinds:
        kinds = {kind for kind in map(_dtype_framework, dtypes) if kind}
    if kinds == {"mlx"}:
        return _mlx()
    return _torch() if kinds == {"torch"} else _numpy()


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
        name = spelled(dtype)
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


@cache
def _numpy() -> Framework:
    arrays = NumpyArrays()

    def array(value: Any, where: str) -> Any:
        return value if isinstance(value, np.ndarray) else np.asarray(value, _scalar_dtype(value, where))

    def filled(shape: tuple[int, ...], dtype: str, init: float) -> Callable[[], Any]:
        return partial(np.full, shape, init, numpy_dtype_of(dtype))

    return Framework(arrays, array, arrays.contiguous, filled)


@cache
def _torch() -> Framework:
    torch, arrays = torch_module(), TorchArrays()

    def array(value: Any, where: str) -> Any:
        if is_torch(value):
            if value.is_nested:
                raise KernelInputError(f"[metal_kernel] {where} {nested()}")
            return value
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(value))
        return torch.from_numpy(np.asarray(value, _scalar_dtype(value, where)))

    def filled(shape: tuple[int, ...], dtype: str, init: float) -> Callable[[], Any]:
        return partial(torch.full, shape, init, dtype=getattr(torch, dtype))

    return Framework(arrays, array, arrays.contiguous, filled)


@cache
def _mlx() -> Framework:
    mx, arrays = mlx_module(), MlxArrays()

    def array(value: Any, where: str) -> Any:
        if is_mlx(value):
            return value
        if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
            return mx.array(value)
        raise KernelInputError(f"[metal_kernel] {where}: {type(value).__name__} is neither an array nor a number")

    def row_contiguous(given: Any) -> Any:
        mx.eval(given)  # it says what is wrong where that cannot be
        return arrays.contiguous(given)

    def filled(shape: tuple[int, ...], dtype: str, init: float) -> Callable[[], Any]:
        def made() -> Any:
            return mx.contiguous(mx.full(shape, mx.array(init).astype(dtype_of(dtype))))

        is_small = 0 < math.prod(shape) <= _SMALL and dtype != "bfloat16"
        return partial(mx.array, np.array(made())) if is_small else made

    def apply(run: Run, given: Sequence[Any]) -> list[Any]:
        if not given:
            return run(given)
        step = mx.custom_function(lambda *values: run(values))

        def no_gradient(primals: Any, cotangents: Any, outputs: Any) -> Any:
            # Without this the gradient through the kernel would be zero and nobody would know.
            raise ValueError("[Primitive::vjp] Not implemented for CustomKernel: wrap the call in mx.custom_function")

        step.vjp(no_gradient)
        return list(step(*given))

    return Framework(arrays, array, row_contiguous, filled, apply)


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
