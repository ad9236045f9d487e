"""Root mean square normalisation over the last dimensions: kernels/rms_norm.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_eps, check_float
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.norm import at_once, benchmarks, check_normalized, check_parameter, gradient
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("rms_norm", "rms_norm_forward", ("has_weight",))
BACKWARD = Kernel("rms_norm", "rms_norm_backward", ("has_weight", "has_share", "is_exact"))
# torch takes the epsilon of the type that it computes in
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-23, "bfloat16": 2.0**-23, "float64": 2.0**-52}


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """`input` over the root of its mean square, over the dimensions of `normalized_shape`, times `weight`.

    As torch.nn.functional.rms_norm: `eps` is by default the machine epsilon of the type that is computed in. The
    weight may be float32 beside an input in half precision; the result has the dtype of the input.

    >>> import numpy as np, metalcore
    >>> metalcore.rms_norm(np.array([[4.0, -4.0]], np.float32), (2,), eps=0.0)
    array([[ 1., -1.]], dtype=float32)
    """
    dtype = check_float("rms_norm", "input", input)
    shape = check_normalized("rms_norm", input, normalized_shape)
    if weight is not None:
        check_parameter("rms_norm", "weight", weight, shape, dtype)
    return OP(input, weight, len(shape), EPSILON[dtype] if eps is None else check_eps("rms_norm", eps))


@stage("(Tensor x, Tensor? weight, int dims, float eps) -> (Tensor y, Tensor power)")
def forward(run: Runtime, x: Any, weight: Any, dims: int, eps: float) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    shape = tuple(x.shape)
    width, rows = math.prod(shape[-dims:]), math.prod(shape[:-dims])
    x = run.contiguous(x)
    weight = None if weight is None else run.contiguous(weight)
    vector, group = row_launch(run, "rms_norm", dtype, width)
    types = (dtype, dtype if weight is None else run.dtype(weight), vector)
    arguments = dict(
        x=x, weight=weight, y=Out(shape, dtype), power=Out((rows,), accumulator(dtype)), rows=rows, width=width, eps=eps
    )
    groups = (-(-rows // at_once(vector)),)
    y, power = run.launch(FORWARD, types, (weight is not None,), arguments, groups, group)
    return y, power


@stage(
    "(Tensor grad_y, Tensor x, Tensor? weight, Tensor power, int dims, bool[] wanted) -> (Tensor dx, Tensor dweight)"
)
def backward(
    run: Runtime, grad_y: Any, x: Any, weight: Any, power: Any, dims: int, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    kind = run.dtype(x if weight is None else weight)
    arrays = dict(g=grad_y, x=x, weight=weight, power=power)
    has_weight = weight is not None
    return gradient(run, BACKWARD, x, dims, kind, arrays, {"shares": has_weight and wanted[1]}, (has_weight,))


def _make(torch: Any, dtype: Any, rows: int, width: int) -> Any:
    return torch.randn(rows, width, dtype=dtype), (width,), torch.randn(width, dtype=dtype), 1e-6


OP = Op(
    "rms_norm",
    "x / sqrt(mean(x^2) + eps) * weight",
    forward,
    backward,
    kept=1,
    batched=("x",),
    namesake="torch.nn.functional.rms_norm",
    override_from=1 << 12,
    benchmarks=benchmarks(_make, {"float32": 2.0, "bfloat16": 4.0}),
)
