"""silu of x + bias: kernels/bias_silu.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.bias import bias_backward, bias_forward, check_bias, declare
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("bias_silu", "bias_silu_forward")
BACKWARD = Kernel("bias_silu", "bias_silu_backward", ("sums_bias",))


def bias_silu(x: Any, bias: Any) -> Any:
    """silu(`x` + `bias`), the bias over the last dimension.

    >>> import numpy as np, metalcore
    >>> metalcore.bias_silu(np.zeros((1, 2), np.float32), np.array([0.0, 100.0], np.float32))
    array([[  0., 100.]], dtype=float32)
    """
    check_bias("bias_silu", x, bias)
    return OP(x, bias)


@stage("(Tensor x, Tensor bias) -> Tensor y")
def forward(run: Runtime, x: Any, bias: Any) -> tuple[Any, ...]:
    return bias_forward(run, FORWARD, (), x, bias)


@stage("(Tensor grad_y, Tensor x, Tensor bias, bool[] wanted) -> (Tensor dx, Tensor dbias)")
def backward(run: Runtime, grad_y: Any, x: Any, bias: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    return bias_backward(run, BACKWARD, (), grad_y, x, bias, wanted)


OP = declare("bias_silu", "silu(x + bias)", forward, backward)
