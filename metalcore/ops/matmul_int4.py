"""A product with a matrix of 4-bit numbers, which is never unpacked in memory: kernels/matmul_int4.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.quantized import Products, check_packed, check_width, multiply, multiply_back
from metalcore.runtimes.runtime import Runtime

PRODUCTS = Products.of("matmul_int4")


def matmul_int4(x: Any, packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    """x @ w.T with w = (q - zeros) * scales, the parts of metalcore.quantize_int4; sums are in float32.

    `x` is (..., in), the result (..., out) in the dtype of `x`. `x` has a gradient.

    >>> import numpy as np, metalcore
    >>> parts = metalcore.quantize_int4(np.array([[0, 1, 2, 15]], np.float32), group_size=4)
    >>> metalcore.matmul_int4(np.ones((1, 4), np.float32), *parts, group_size=4)
    array([[18.]], dtype=float32)
    """
    _, width = check_packed("matmul_int4", packed, scales, zeros, group_size)
    check_width("matmul_int4", x, width)
    return OP(x, packed, scales, zeros, group_size)


@stage("(Tensor x, Tensor packed, Tensor scales, Tensor zeros, int group_size) -> Tensor y")
def forward(run: Runtime, x: Any, packed: Any, scales: Any, zeros: Any, group_size: int) -> tuple[Any, ...]:
    weight = dict(packed=packed, scales=scales, zeros=zeros)
    return (multiply(run, "matmul_int4", PRODUCTS, x, weight, packed.shape[0], 2 * packed.shape[1], group_size),)


@stage("(Tensor grad_y, Tensor x, Tensor packed, Tensor scales, Tensor zeros, int group_size) -> Tensor dx")
def backward(
    run: Runtime, grad_y: Any, x: Any, packed: Any, scales: Any, zeros: Any, group_size: int
) -> tuple[Any, ...]:
    weight = dict(packed=packed, scales=scales, zeros=zeros)
    return (multiply_back(run, PRODUCTS, grad_y, tuple(x.shape), weight, packed.shape[0], group_size),)


def _make(rows: int, outs: int, width: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        packed = torch.randint(0, 256, (outs, width // 2), dtype=torch.uint8)
        shape = outs, width // 128
        scales, zeros = (torch.rand(shape) * 0.01).to(dtype), torch.full(shape, 7.0).to(dtype)
        return (torch.randn(rows, width).to(dtype), packed, scales, zeros, 128), {}

    return make


OP = Op(
    "matmul_int4",
    "x w^T, w = (q - zero) scale by groups, 4-bit q",
    forward,
    backward,
    batched=("x",),
    benchmarks=[
        Benchmark(f"{rows}x{width} to {outs}", _make(rows, outs, width), outs * width, constants=(2, 3))
        for rows, outs, width in ((1, 4096, 4096), (64, 4096, 4096))
    ],
)
