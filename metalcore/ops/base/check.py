"""Checks of arguments, with one wording: the op, the argument, what was expected, what was given."""

from __future__ import annotations

from typing import Any, NoReturn

from metalcore.arrays.dtypes import dtype_name as dtype_name
from metalcore.errors import ArgumentError
from metalcore.ops.base.op import FLOATS

_FLOATS = (*FLOATS, "float64")


def refuse(op: str, argument: str, expected: str, given: object) -> NoReturn:
    raise ArgumentError(f"{op}: {argument} must be {expected}, not {given}")


def check_array(op: str, argument: str, array: Any) -> str:
    """The dtype's name."""
    if not hasattr(type(array), "dtype"):
        refuse(op, argument, "a torch tensor, a NumPy array or an mlx array", f"of type {type(array).__name__}")
    if getattr(array, "is_nested", False):
        refuse(op, argument, "one block of memory", "a nested tensor: call it for each of its tensors, .unbind()")
    if getattr(array, "is_sparse", False) or getattr(array, "is_sparse_csr", False):
        refuse(op, argument, "one block of memory", "a sparse tensor: call it with .to_dense()")
    return dtype_name(array)


def check_kind(op: str, argument: str, array: Any, kinds: tuple[str, ...]) -> str:
    """The dtype's name, which must be one of these."""
    name = check_array(op, argument, array)
    if name not in kinds:
        refuse(op, argument, f"{', '.join(kinds[:-1])} or {kinds[-1]}", f"of dtype {name}")
    return name


def check_float(op: str, argument: str, array: Any) -> str:
    """The dtype's name, where it is one that kernels are written for; float64 is the engine's alone."""
    return check_kind(op, argument, array, _FLOATS)


def check_eps(op: str, eps: Any) -> float:
    if not isinstance(eps, (int, float)) or not eps >= 0:
        refuse(op, "eps", "a number that is not negative", repr(eps))
    return float(eps)


def check_shape(op: str, argument: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape and tuple(array.shape) != tuple(shape):
        refuse(op, argument, f"of shape {tuple(shape)}", f"of shape {tuple(array.shape)}")
