"""gelu of x + bias: kernels/bias_gelu.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.bias import bias_backward, bias_forward, check_bias, declare
from metalcore.ops.base.elementwise import check_approximate
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("bias_gelu", "bias_gelu_forward", ("is_tanh",))
BACKWARD = Kernel("bias_gelu", "bias_gelu_backward", ("is_tanh", "sums_bias"))


def bias_gelu(x: Any, bias: Any, approximate: str = "none") -> Any:
    """gelu(`x` + `bias`), the bias over the last dimension; `approximate` is that of gelu.

    >>> import numpy as np, metalcore
    >>> metalcore.bias_gelu(np.zeros((1, 2), np.float32), np.array([0.0, 100.0], np.float32))
    array([[  0., 100.]], dtype=float32)
    """
    check_bias("bias_gelu", x, bias)
    return OP(x, bias, check_approximate("bias_gelu", approximate))


@stage("(Tensor x, Tensor bias, bool is_tanh) -> Tensor y")
def forward(run: Runtime, x: Any, bias: Any, is_tanh: bool) -> tuple[Any, ...]:
    return bias_forward(run, FORWARD, (is_tanh,), x, bias)


@stage("(Tensor grad_y, Tensor x, Tensor bias, bool is_tanh, bool[] wanted) -> (Tensor dx, Tensor dbias)")
def backward(run: Runtime, grad_y: Any, x: Any, bias: Any, is_tanh: bool, wanted: Sequence[bool]) -> tuple[Any, ...]:
    return bias_backward(run, BACKWARD, (is_tanh,), grad_y, x, bias, wanted)


OP = declare("bias_gelu", "gelu(x + bias)", forward, backward)
