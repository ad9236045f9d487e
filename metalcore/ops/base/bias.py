"""What bias_gelu and bias_silu share: an activation of x + bias, the bias added to every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.elementwise import benchmarks, check_alike
from metalcore.ops.base.launch import accumulator, blocks_for, column_sum, row_launch, vector_width
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime


def check_bias(op: str, x: Any, bias: Any) -> None:
    check_float(op, "x", x)
    check_float(op, "bias", bias)
    if len(x.shape) == 0:
        refuse(op, "x", "an array of at least one dimension", "a single number")
    if tuple(bias.shape) != (x.shape[-1],):
        refuse(op, "bias", f"of shape ({x.shape[-1]},), as the last dimension of x", f"of shape {tuple(bias.shape)}")


def declare(noun: str, summary: str, forward: Stage[...], backward: Stage[...]) -> Op:
    def make(torch: Any, dtype: Any, shape: tuple[int, int]) -> Any:
        return torch.randn(shape, dtype=dtype), torch.randn(shape[-1], dtype=dtype)

    return Op(noun, summary, forward, backward, batched=("x",), autocast="promote", benchmarks=benchmarks(make, 1.5))


def bias_forward(run: Runtime, kernel: Kernel, constants: tuple[object, ...], x: Any, bias: Any) -> tuple[Any, ...]:
    """Rows of the grid are rows of x."""
    op = kernel.file
    dtype, shape = check_alike(op, run, x, bias=bias), tuple(x.shape)
    width, rows = shape[-1], math.prod(shape[:-1])
    x, bias = run.contiguous(x), run.contiguous(bias)
    vector = vector_width(run, "elementwise", dtype, width)
    steps = width // vector
    threads = min(policy("elementwise", run.family, dtype)["threads"], max(32, -(-steps // 32) * 32))
    groups, group = (-(-steps // threads), rows), (threads, 1)
    arguments = dict(x=x, bias=bias, y=Out(shape, dtype), width=width)
    return tuple(run.launch(kernel, (dtype, vector), constants, arguments, groups, group))


def bias_backward(
    run: Runtime, kernel: Kernel, constants: tuple[object, ...], g: Any, x: Any, bias: Any, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """Blocks of rows: each gives the gradient of its rows, and its share of that of the bias."""
    op = kernel.file
    dtype, shape = run.dtype(x), tuple(x.shape)
    width, rows = shape[-1], math.prod(shape[:-1])
    g, x, bias = run.contiguous(g), run.contiguous(x), run.contiguous(bias)
    vector, group = row_launch(run, op, dtype, width)
    blocks, each = blocks_for(run, op, dtype, rows)
    sums_bias = bool(wanted[1])
    shares = Out((blocks, width) if sums_bias else (0,), accumulator(dtype))
    arguments = dict(g=g, x=x, bias=bias, dx=Out(shape, dtype), shares=shares, rows=rows, width=width, rows_each=each)
    dx, found = run.launch(kernel, (dtype, vector), (*constants, sums_bias), arguments, (blocks,), group)
    return dx, column_sum(run, found, (width,), dtype) if sums_bias else run.empty((0,), dtype)
