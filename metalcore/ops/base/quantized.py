"""What the ops on matrices of small integers share: checks, and the launches of kernels/quantized.h."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

LANES, ROWS = 32, 64  # of a tile, as in kernels/quantized.h


class Products(NamedTuple):
    """The three kernels of one format: few rows, many rows, and the gradient."""

    columns: int  # in a byte
    rows: Kernel
    tile: Kernel
    back: Kernel

    @staticmethod
    def of(noun: str) -> Products:
        return Products(
            8 // int(noun.removeprefix("matmul_int")),
            Kernel(noun, f"{noun}_rows", ("whole_groups",)),
            Kernel(noun, f"{noun}_tile", ("whole_words",)),
            Kernel(noun, f"{noun}_tile_back", ("whole_groups",)),
        )


def check_group_size(op: str, group_size: Any) -> int:
    if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 2 or group_size % 2:
        refuse(op, "group_size", "an even number of columns", repr(group_size))
    return group_size


def check_packed(op: str, packed: Any, scales: Any, zeros: Any, group_size: Any) -> tuple[int, int]:
    """Rows and columns of a matrix of 4-bit numbers, whose parts must fit each other."""
    size = check_group_size(op, group_size)
    shape = packed.shape
    if dtype_name(packed) != "uint8" or len(shape) != 2:
        refuse(op, "packed", "a matrix of uint8", f"{dtype_name(packed)} of shape {tuple(shape)}")
    outs, width = shape[0], 2 * shape[1]
    expected = outs, -(-width // size)
    check_float(op, "scales", scales)
    for name, array in (("scales", scales), ("zeros", zeros)):
        check_constant(op, name, array)
        if array.shape != expected and tuple(array.shape) != expected:
            refuse(op, name, f"of shape {expected}, a row for each group", f"of shape {tuple(array.shape)}")
    if zeros.dtype != scales.dtype:
        refuse(op, "zeros", f"of dtype {dtype_name(scales)}, as scales", f"of dtype {dtype_name(zeros)}")
    return outs, width


def check_constant(op: str, name: str, array: Any) -> None:
    """Only x has a gradient: another one is refused, not cut silently."""
    if getattr(array, "requires_grad", False):
        refuse(op, name, "without requires_grad: only x has a gradient", "an array that asks for one")


def check_width(op: str, x: Any, width: int) -> None:
    check_float(op, "x", x)
    if not x.shape or x.shape[-1] != width:
        refuse(op, "x", f"of {width} columns, as the weight", f"of shape {tuple(x.shape)}")


def multiply(
    run: Runtime, op: str, products: Products, x: Any, weight: Mapping[str, Any], outs: int, width: int, group_size: int
) -> Any:
    """x w^T. `weight` has the codes, the scales and, where there are some, the zeros, by the kernel's names."""
    dtype, types = run.dtype(x), (run.dtype(x), run.dtype(weight["scales"]))
    shape = tuple(x.shape)
    rows = math.prod(shape[:-1])
    arguments = {name: run.contiguous(a) for name, a in weight.items()}
    arguments |= dict(x=run.contiguous(x), y=Out((*shape[:-1], outs), dtype))
    arguments |= dict(rows=rows, outs=outs, width=width, group_size=group_size)
    if rows > policy(op, run.family, dtype)["few_rows"]:
        groups = -(-outs // LANES), -(-rows // ROWS)
        whole = (width % (4 * products.columns) == 0,)
        (y,) = run.launch(products.tile, types, whole, arguments, groups, (LANES, 1))
        return y
    each = 1 if rows <= 1 else 4
    whole = (group_size % (LANES * products.columns) == 0 or group_size >= width,)
    (y,) = run.launch(products.rows, (*types, each), whole, arguments, (outs, -(-rows // each)), (LANES, 1))
    return y


def multiply_back(
    run: Runtime,
    products: Products,
    g: Any,
    shape: tuple[int, ...],
    weight: Mapping[str, Any],
    outs: int,
    group_size: int,
) -> Any:
    """g w, of this shape."""
    dtype, types = run.dtype(g), (run.dtype(g), run.dtype(weight["scales"]))
    rows, width = math.prod(shape[:-1]), shape[-1]
    arguments = {name: run.contiguous(a) for name, a in weight.items()}
    arguments |= dict(g=run.contiguous(g), dx=Out(shape, dtype))
    arguments |= dict(rows=rows, outs=outs, width=width, group_size=group_size)
    groups = -(-width // LANES), -(-rows // ROWS)
    (dx,) = run.launch(products.back, types, (group_size % LANES == 0,), arguments, groups, (LANES, 1))
    return dx
