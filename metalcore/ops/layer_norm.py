"""Layer normalisation over the last dimensions: kernels/layer_norm.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_eps, check_float
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.norm import at_once, benchmarks, check_affine, check_normalized, gradient
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("layer_norm", "layer_norm_forward", ("has_weight", "has_bias"))
BACKWARD = Kernel("layer_norm", "layer_norm_backward", ("has_weight", "has_weight_share", "has_bias_share", "is_exact"))


def layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """`input` with mean 0 and variance 1 over the dimensions of `normalized_shape`, times `weight` plus `bias`.

    As torch.nn.functional.layer_norm. Weight and bias may be float32 beside an input in half precision; the result has
    the dtype of the input.

    >>> import numpy as np, metalcore
    >>> metalcore.layer_norm(np.array([[1.0, 3.0]], np.float32), (2,), eps=0.0)
    array([[-1.,  1.]], dtype=float32)
    """
    dtype = check_float("layer_norm", "input", input)
    shape = check_normalized("layer_norm", input, normalized_shape)
    check_affine("layer_norm", weight, bias, shape, dtype)
    return OP(input, weight, bias, len(shape), check_eps("layer_norm", eps))


@stage("(Tensor x, Tensor? weight, Tensor? bias, int dims, float eps) -> (Tensor y, Tensor moments)")
def forward(run: Runtime, x: Any, weight: Any, bias: Any, dims: int, eps: float) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    shape = tuple(x.shape)
    width, rows = math.prod(shape[-dims:]), math.prod(shape[:-dims])
    kind = _kind(run, dtype, weight, bias)
    x, weight, bias = (None if a is None else run.contiguous(a) for a in (x, weight, bias))
    vector, group = row_launch(run, "layer_norm", dtype, width)
    arguments = dict(x=x, weight=weight, bias=bias, y=Out(shape, dtype), moments=Out((rows, 3), accumulator(dtype)))
    arguments |= dict(rows=rows, width=width, eps=eps)
    constants = (weight is not None, bias is not None)
    y, moments = run.launch(FORWARD, (dtype, kind, vector), constants, arguments, (-(-rows // at_once(vector)),), group)
    return y, moments


def _kind(run: Runtime, dtype: str, weight: Any, bias: Any) -> str:
    """The dtype of weight and bias."""
    first = bias if weight is None else weight
    kind: str = dtype if first is None else run.dtype(first)
    return kind


@stage(
    "(Tensor grad_y, Tensor x, Tensor? weight, Tensor? bias, Tensor moments, int dims, bool[] wanted)"
    " -> (Tensor dx, Tensor dweight, Tensor dbias)"
)
def backward(
    run: Runtime, grad_y: Any, x: Any, weight: Any, bias: Any, moments: Any, dims: int, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    kind, has_weight = _kind(run, run.dtype(x), weight, bias), weight is not None
    arrays = dict(g=grad_y, x=x, weight=weight, moments=moments)
    makes = {"weight_shares": has_weight and wanted[1], "bias_shares": bias is not None and wanted[2]}
    return gradient(run, BACKWARD, x, dims, kind, arrays, makes, (has_weight,))


def _make(torch: Any, dtype: Any, rows: int, width: int) -> Any:
    weight, bias = torch.randn(width, dtype=dtype), torch.randn(width, dtype=dtype)
    return torch.randn(rows, width, dtype=dtype), (width,), weight, bias, 1e-5


OP = Op(
    "layer_norm",
    "(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias",
    forward,
    backward,
    kept=1,
    batched=("x",),
    namesake="torch.nn.functional.layer_norm",
    override_from=1 << 22,
    benchmarks=benchmarks(_make, {"*": 1.0}),
)
