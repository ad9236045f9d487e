"""A product with a matrix of 8-bit numbers: kernels/matmul_int8.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.quantized import Products, check_constant, check_width, multiply, multiply_back
from metalcore.runtimes.runtime import Runtime

PRODUCTS = Products.of("matmul_int8")


def matmul_int8(x: Any, weight_int8: Any, scales: Any) -> Any:
    """x @ w.T with w = weight_int8 * scales; sums are in float32.

    `x` is (..., in), `weight_int8` (out, in), `scales` one for each row (out,) or (out, groups), where every group has
    the same number of columns. The result is (..., out) in the dtype of `x`. `x` has a gradient.

    >>> import numpy as np, metalcore
    >>> weight = np.array([[1, -2], [3, 4]], np.int8)
    >>> metalcore.matmul_int8(np.ones((1, 2), np.float32), weight, np.array([1.0, 0.5], np.float32))
    array([[-1. ,  3.5]], dtype=float32)
    """
    if dtype_name(weight_int8) != "int8" or len(weight_int8.shape) != 2:
        given = f"{dtype_name(weight_int8)} of shape {tuple(weight_int8.shape)}"
        refuse("matmul_int8", "weight_int8", "a matrix of int8", given)
    outs, width = weight_int8.shape
    check_width("matmul_int8", x, width)
    check_float("matmul_int8", "scales", scales)
    check_constant("matmul_int8", "scales", scales)
    shape = tuple(scales.shape)
    if shape != (outs,) and (len(shape) != 2 or shape[0] != outs or shape[1] < 1 or width % shape[1]):
        expected = f"of shape ({outs},), or ({outs}, groups) with groups of equal size in {width} columns"
        refuse("matmul_int8", "scales", expected, f"of shape {shape}")
    return OP(x, weight_int8, scales)


def _sizes(weight: Any, scales: Any) -> tuple[int, int, int]:
    """Rows, columns, and columns in a group."""
    outs, width = weight.shape
    return outs, width, max(1, width // (scales.shape[1] if len(scales.shape) == 2 else 1))


@stage("(Tensor x, Tensor weight, Tensor scales) -> Tensor y")
def forward(run: Runtime, x: Any, weight: Any, scales: Any) -> tuple[Any, ...]:
    return (multiply(run, "matmul_int8", PRODUCTS, x, dict(weight=weight, scales=scales), *_sizes(weight, scales)),)


@stage("(Tensor grad_y, Tensor x, Tensor weight, Tensor scales) -> Tensor dx")
def backward(run: Runtime, grad_y: Any, x: Any, weight: Any, scales: Any) -> tuple[Any, ...]:
    outs, _, group_size = _sizes(weight, scales)
    parts = dict(weight=weight, scales=scales)
    return (multiply_back(run, PRODUCTS, grad_y, tuple(x.shape), parts, outs, group_size),)


def _make(rows: int, outs: int, width: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        weight = torch.randint(-128, 128, (outs, width), dtype=torch.int8)
        return (torch.randn(rows, width).to(dtype), weight, (torch.rand(outs) * 0.01).to(dtype)), {}

    return make


OP = Op(
    "matmul_int8",
    "x w^T, w = q scale by rows or groups, 8-bit q",
    forward,
    backward,
    batched=("x",),
    benchmarks=[
        Benchmark(f"{rows}x{width} to {outs}", _make(rows, outs, width), outs * width, constants=(2,))
        for rows, outs, width in ((1, 4096, 4096), (64, 4096, 4096))
    ],
)
