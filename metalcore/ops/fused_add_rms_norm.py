"""A residual sum and its root mean square normalisation in one kernel: kernels/fused_add_rms_norm.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_eps
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.norm import at_once, check_parameter, check_sum, declare_fused, gradient
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("fused_add_rms_norm", "fused_add_rms_norm_forward")
BACKWARD = Kernel("fused_add_rms_norm", "fused_add_rms_norm_backward", ("has_share", "is_exact"))


def fused_add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """(y, new_residual): new_residual is x + residual in their dtype, y its rms_norm over the last dimension.

    The weight may be float32 beside inputs in half precision. Both results have gradients.

    >>> import numpy as np, metalcore
    >>> x, residual = np.array([[1.0, 1.0]], np.float32), np.array([[2.0, 3.0]], np.float32)
    >>> y, new_residual = metalcore.fused_add_rms_norm(x, residual, np.ones(2, np.float32), eps=0.0)
    >>> new_residual
    array([[3., 4.]], dtype=float32)
    """
    y, total = OP(x, residual, weight, check_eps("fused_add_rms_norm", eps))
    return y, total


@stage("(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor y, Tensor new_residual, Tensor power)")
def forward(run: Runtime, x: Any, residual: Any, weight: Any, eps: float) -> tuple[Any, ...]:
    dtype = check_sum("fused_add_rms_norm", x, residual)
    shape = tuple(x.shape)
    check_parameter("fused_add_rms_norm", "weight", weight, shape[-1:], dtype)
    width, rows = shape[-1], math.prod(shape[:-1])
    x, residual, weight = run.contiguous(x), run.contiguous(residual), run.contiguous(weight)
    vector, group = row_launch(run, "fused_add_rms_norm", dtype, width)
    out = Out(shape, dtype)
    arguments = dict(x=x, residual=residual, weight=weight)
    arguments |= dict(y=out, h=out, power=Out((rows,), accumulator(dtype)), rows=rows, width=width, eps=eps)
    groups = (-(-rows // at_once(vector)),)
    y, total, power = run.launch(FORWARD, (dtype, run.dtype(weight), vector), (), arguments, groups, group)
    return y, total, power


@stage(
    "(Tensor grad_y, Tensor grad_new_residual, Tensor new_residual, Tensor weight, Tensor power, bool[] wanted)"
    " -> (Tensor dx, Tensor dweight)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    grad_y, carry, new_residual, weight, power, wanted = values
    arrays = dict(g=grad_y, carry=carry, h=new_residual, weight=weight, power=power)
    return gradient(run, BACKWARD, new_residual, 1, run.dtype(weight), arrays, {"shares": bool(wanted[1])})


def _make(torch: Any, dtype: Any, rows: int, width: int) -> Any:
    x, residual = torch.randn(rows, width, dtype=dtype), torch.randn(rows, width, dtype=dtype)
    return x, residual, torch.randn(width, dtype=dtype)


OP = declare_fused("fused_add_rms_norm", "x + residual, and its rms_norm", forward, backward, _make)
