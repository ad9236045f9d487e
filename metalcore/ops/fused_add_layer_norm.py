"""A residual sum and its layer normalisation in one kernel: kernels/fused_add_layer_norm.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_eps
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.norm import at_once, check_affine, check_sum, declare_fused, gradient
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("fused_add_layer_norm", "fused_add_layer_norm_forward", ("has_bias",))
BACKWARD = Kernel(
    "fused_add_layer_norm", "fused_add_layer_norm_backward", ("has_weight_share", "has_bias_share", "is_exact")
)


def fused_add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = 1e-5) -> tuple[Any, Any]:
    """(y, new_residual): new_residual is x + residual in their dtype, y its layer_norm over the last dimension.

    Weight and bias may be float32 beside inputs in half precision; bias may be None. Both results have gradients.

    >>> import numpy as np, metalcore
    >>> x, residual = np.array([[1.0, 1.0]], np.float32), np.array([[0.0, 2.0]], np.float32)
    >>> one = np.ones(2, np.float32)
    >>> metalcore.fused_add_layer_norm(x, residual, one, one, eps=0.0)
    (array([[0., 2.]], dtype=float32), array([[1., 3.]], dtype=float32))
    """
    y, total = OP(x, residual, weight, bias, check_eps("fused_add_layer_norm", eps))
    return y, total


@stage(
    "(Tensor x, Tensor residual, Tensor weight, Tensor? bias, float eps)"
    " -> (Tensor y, Tensor new_residual, Tensor moments)"
)
def forward(run: Runtime, x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    dtype = check_sum("fused_add_layer_norm", x, residual)
    shape = tuple(x.shape)
    check_affine("fused_add_layer_norm", weight, bias, shape[-1:], dtype)
    width, rows = shape[-1], math.prod(shape[:-1])
    x, residual, weight = run.contiguous(x), run.contiguous(residual), run.contiguous(weight)
    bias = None if bias is None else run.contiguous(bias)
    vector, group = row_launch(run, "fused_add_layer_norm", dtype, width)
    out = Out(shape, dtype)
    arguments = dict(x=x, residual=residual, weight=weight, bias=bias)
    arguments |= dict(y=out, h=out, moments=Out((rows, 3), accumulator(dtype)), rows=rows, width=width, eps=eps)
    types = (dtype, run.dtype(weight), vector)
    groups = (-(-rows // at_once(vector)),)
    y, total, moments = run.launch(FORWARD, types, (bias is not None,), arguments, groups, group)
    return y, total, moments


@stage(
    "(Tensor grad_y, Tensor grad_new_residual, Tensor new_residual, Tensor weight, Tensor? bias, Tensor moments,"
    " bool[] wanted) -> (Tensor dx, Tensor dweight, Tensor dbias)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    grad_y, carry, new_residual, weight, bias, moments, wanted = values
    arrays = dict(g=grad_y, carry=carry, h=new_residual, weight=weight, moments=moments)
    makes = {"weight_shares": bool(wanted[1]), "bias_shares": bias is not None and wanted[2]}
    return gradient(run, BACKWARD, new_residual, 1, run.dtype(weight), arrays, makes)


def _make(torch: Any, dtype: Any, rows: int, width: int) -> Any:
    x, residual = torch.randn(rows, width, dtype=dtype), torch.randn(rows, width, dtype=dtype)
    return x, residual, torch.randn(width, dtype=dtype), torch.randn(width, dtype=dtype)


OP = declare_fused("fused_add_layer_norm", "x + residual, and its layer_norm", forward, backward, _make)
