"""What PyTorch accepts as kernel arguments and launch sizes, as raw memory and three-dimensional sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metalcore.arrays.find import is_array, is_mlx
from metalcore.dropins.binding import aligned_copy, bind_array
from metalcore.engine.runtime.raw_binding import Binding
from metalcore.errors import ArgumentError
from metalcore.launch import ThreadLimit, check_group

if TYPE_CHECKING:
    from metalcore.engine.function import Function

INLINE_LIMIT = 4096  # bytes that Metal's setBytes takes
CASTS = {"int32": np.int32, "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "fp16": np.float16}


class ShaderArgumentError(ArgumentError, RuntimeError):
    """An argument that a shader call cannot take; PyTorch raises RuntimeError here."""


def extents(value: Any, name: str) -> tuple[int, ...] | None:
    """`threads=` or `group_size=` as one to three numbers; None stays None."""
    if value is None:
        return None
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if not 0 < len(numbers) < 4:
        raise ShaderArgumentError(f"{name} takes one to three numbers, not {len(numbers)}")
    for number in numbers:
        if not isinstance(number, (int, np.integer)) or not 0 <= int(number) < 1 << 32:
            raise ShaderArgumentError(f"{name}: {number!r} is not a number of threads")
    return tuple(int(number) for number in numbers)


def launch_size(
    threads: tuple[int, ...], group: tuple[int, ...] | None, limits: Sequence[ThreadLimit], kernel: str = "kernel"
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and threadgroup in three dimensions, with PyTorch's defaults, and its words where the group is too large."""
    limit = min(each.threads for each in limits)
    if group is None:
        group = (min(threads[0], limit),) if len(threads) == 1 else (limit, 1, 1)[: len(threads)]
    elif len(group) != len(threads):
        raise ShaderArgumentError(f"threads has {len(threads)} dimensions and group_size {len(group)}: they must agree")
    total = math.prod(group)
    if total or 0 not in threads:
        lead = f"Threadgroup size exceeds {limit} limit" if total > limit else ""
        check_group(kernel, group, limits, f"group_size={group}", lead)
    return _three(threads), _three(group)


def _three(values: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = values + (1,) * (3 - len(values))
    return x, y, z


class Casts:
    """PyTorch's arg_casts: one cast for all scalars, or one for each argument index."""

    def __init__(self, casts: str | Mapping[int, str] | None) -> None:
        self.default = ""
        self.by_index: dict[int, str] = {}
        if isinstance(casts, str):
            self.default = casts
        elif isinstance(casts, dict):
            self.by_index = dict(casts)
        elif casts is not None:
            raise ShaderArgumentError(f"Unexpected caster arg type {type(casts).__name__}")
        for name in (self.default, *self.by_index.values()):
            if name and name != "bf16" and name not in CASTS:
                known = ", ".join(sorted([*CASTS, "bf16"]))
                raise ShaderArgumentError(f"Unsupported cast instruction {name!r}; there are {known}")

    def apply(self, index: int, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The bytes that the kernel gets for these numbers."""
        name = self.by_index.get(index, self.default)
        if not name:
            return values
        if name == "bf16":
            return _round_to_bfloat16(values)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(CASTS[name])


def _round_to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The bits of the nearest bfloat16 of each value, ties to even, NaN kept."""
    single = np.asarray(values, np.float32)
    bits = single.view(np.uint32)
    rounded: np.ndarray[Any, np.dtype[np.uint16]]
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    rounded[np.isnan(single)] = 0x7FC0  # adding to a NaN could carry it to infinity or beyond
    return rounded


def bind_struct(function: Function, index: int, value: Any) -> Binding | None:
    """An argument buffer, or a dict of a struct's members; None where it is neither. PyTorch has nothing like it."""
    from metalcore.engine.runtime.argument_buffers import ArgumentBuffer, filled

    if isinstance(value, Mapping):
        value = filled(function, index, value, {}, any_sign=True)
    if not isinstance(value, ArgumentBuffer):
        return None
    inside = tuple(Binding(low, high - low, None, writable) for low, high, writable in value.regions)
    return Binding(value.address, value.size, value.keep, writable=True, inside=inside, cells=value.cells)


def bind_value(value: Any, index: int, casts: Casts) -> Binding:
    """A number, or a list or tuple of numbers or of tensors, as the bytes that PyTorch would pass."""
    if isinstance(value, (list, tuple)):
        return _bind_sequence(value, index, casts)
    if isinstance(value, float):
        return aligned_copy(casts.apply(index, _floats([value])))
    if isinstance(value, int):
        return aligned_copy(casts.apply(index, _integers([value], index)))
    raise ShaderArgumentError(
        f"Unsupported argument type: argument {index} is {type(value).__name__}; "
        "a kernel takes tensors, NumPy arrays, int, float, and lists or tuples of them"
    )


def _bind_sequence(value: Sequence[Any], index: int, casts: Casts) -> Binding:
    if not value:
        raise ShaderArgumentError(f"Empty list/tuple can not be an argument to metal kernel (argument {index})")
    first = value[0]
    if is_array(first) and not is_mlx(first):
        return _bind_addresses(value, index)
    if isinstance(first, int):
        numbers = _integers(value, index)
    elif isinstance(first, float):
        if not all(isinstance(number, (int, float)) for number in value):
            raise ShaderArgumentError(f"Unexpected argument types in the list of argument {index}")
        numbers = _floats(value)
    else:
        raise ShaderArgumentError(f"Unexpected argument types: argument {index} is a list of {type(first).__name__}")
    binding = aligned_copy(casts.apply(index, numbers))
    _check_inline(binding, index)
    return binding


def _bind_addresses(value: Sequence[Any], index: int) -> Binding:
    """A list of tensors is an array of their addresses, which the kernel follows."""
    if not all(is_array(item) for item in value):
        raise ShaderArgumentError(f"Unexpected argument types: argument {index} mixes tensors and other values")
    targets = tuple(bind_array(item, f"item {i} of argument {index}") for i, item in enumerate(value))
    table = aligned_copy(np.array([target.address for target in targets], np.uint64))
    _check_inline(table, index)
    keep, cells = (table.owner, targets), range(table.address, table.address + table.size, 8)
    return Binding(table.address, table.size, keep, writable=False, inside=targets, is_list=True, cells=cells)


def _check_inline(binding: Binding, index: int) -> None:
    if binding.size > INLINE_LIMIT:
        raise ShaderArgumentError(
            f"argument {index}: a list takes at most {INLINE_LIMIT} bytes and this one has {binding.size}; use a tensor"
        )


def _integers(values: Sequence[Any], index: int) -> np.ndarray[Any, Any]:
    if not all(isinstance(number, int) for number in values):
        raise ShaderArgumentError(f"Unexpected argument types in the list of argument {index}: all must be int")
    if not all(-(1 << 63) <= number < 1 << 63 for number in values):
        raise ShaderArgumentError(f"argument {index}: an integer does not fit 64 bits")
    return np.array([int(number) for number in values], np.int64)


def _floats(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(np.float32)
