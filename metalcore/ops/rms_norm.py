"""Root mean square normalisation over the last dimensions: kernels/rms_norm.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_eps, check_float, check_shape, refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.launch import accumulator, blocks_for, column_sum, row_launch
from metalcore.ops.base.op import Benchmark, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out

FORWARD = Kernel("rms_norm", "rms_norm_forward", ("has_weight",))
BACKWARD = Kernel("rms_norm", "rms_norm_backward", ("has_weight",))


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """`input` over the root of its mean square, over the dimensions of `normalized_shape`, times `weight`.

    As torch.nn.functional.rms_norm: `eps` is by default the machine epsilon of the dtype.

    >>> import numpy as np, metalcore
    >>> x = np.array([[3.0, 4.0]], np.float32)
    >>> metalcore.rms_norm(x, (2,), eps=0.0) * np.sqrt(12.5)
    array([[3., 4.]], dtype=float32)
    """
    shape = check_normalized("rms_norm", input, normalized_shape)
    dtype = check_float("rms_norm", "input", input)
    if weight is not None:
        check_shape("rms_norm", "weight", weight, shape)
        check_float("rms_norm", "weight", weight)
    return OP(input, weight, len(shape), EPSILON[dtype] if eps is None else check_eps("rms_norm", eps))


EPSILON = {"float32": 2.0**-23, "float16": 2.0**-23, "bfloat16": 2.0**-23, "float64": 2.0**-52}


def check_normalized(op: str, x: Any, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that is normalised over, which must be the end of the input's."""
    if isinstance(normalized_shape, int):
        normalized_shape = (normalized_shape,)
    shape = tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        refuse(op, "normalized_shape", f"the last dimensions of the input, of shape {tuple(x.shape)}", shape)
    return shape


def forward(run: Any, x: Any, weight: Any, dims: int, eps: float) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    shape = tuple(x.shape)
    width = math.prod(shape[-dims:])
    rows = math.prod(shape[:-dims])
    x = run.contiguous(x)
    weight = None if weight is None else run.contiguous(weight)
    vector, group = row_launch(run, "rms_norm", dtype, width, x, weight)
    weight_type = dtype if weight is None else run.dtype(weight)
    arguments = (x, weight, Out(shape, dtype), Out((rows,), accumulator(dtype)), width, eps)
    y, scale = run.launch(FORWARD, (dtype, weight_type, vector), (weight is not None,), arguments, (rows,), group)
    return y, scale


def backward(
    run: Any, grad_y: Any, x: Any, weight: Any, scale: Any, dims: int, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    shape = tuple(x.shape)
    width, rows = math.prod(shape[-dims:]), math.prod(shape[:-dims])
    grad_y, x = run.contiguous(grad_y), run.contiguous(x)
    weight = None if weight is None else run.contiguous(weight)
    vector, group = row_launch(run, "rms_norm", dtype, width, grad_y, x, weight)
    weight_type = dtype if weight is None else run.dtype(weight)
    blocks, rows_each = blocks_for(run, "rms_norm", dtype, rows)
    dx, shares = run.launch(
        BACKWARD,
        (dtype, weight_type, vector),
        (weight is not None,),
        (grad_y, x, weight, scale, Out(shape, dtype), Out((blocks, width), accumulator(dtype)), rows, width, rows_each),
        (blocks,),
        group,
    )
    if weight is None:
        return dx, run.empty((0,), dtype)
    return dx, column_sum(run, shares, tuple(weight.shape), weight_type)


def reference(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    import torch

    return torch.nn.functional.rms_norm(input, normalized_shape, weight, eps)


def samples(draw: Draw) -> Sample:
    width = draw.size()
    x = draw.floats((*draw.leading(), width))
    weight = draw.floats((width,)) if draw.chance(0.7) else None
    return Sample((x, (width,), weight, draw.choice((None, 1e-6, 1e-3))))


def _make(rows: int, width: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        return (torch.randn(rows, width, dtype=dtype), (width,), torch.randn(width, dtype=dtype), 1e-6), {}

    return make


OP = Op(
    noun="rms_norm",
    summary="x / sqrt(mean(x^2) + eps) * weight",
    forward=Stage("(Tensor x, Tensor? weight, int dims, float eps) -> (Tensor y, Tensor scale)", forward),
    backward=Stage(
        "(Tensor grad_y, Tensor x, Tensor? weight, Tensor scale, int dims, bool[] wanted) -> (Tensor dx, Tensor dw)",
        backward,
    ),
    gradients=("x", "weight"),
    reference=reference,
    samples=samples,
    batched=("x",),
    namesake="torch.nn.functional.rms_norm",
    benchmarks=[
        Benchmark(f"{rows}x{width}", _make(rows, width), rows * width, targets={"float32": 2.0, "bfloat16": 4.0})
        for rows, width in ((1, 4096), (512, 768), (2048, 2048), (4096, 4096), (1024, 8192))
    ],
)
