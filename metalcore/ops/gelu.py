"""The Gaussian error linear unit, exact and with tanh: kernels/gelu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float
from metalcore.ops.base.elementwise import check_approximate, declare, left_to_torch, sweep
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("gelu", "gelu_forward", ("is_tanh",))
BACKWARD = Kernel("gelu", "gelu_backward", ("is_tanh",))


def gelu(input: Any, approximate: str = "none") -> Any:
    """`input` times the share of the normal distribution below it, as torch.nn.functional.gelu.

    `approximate="tanh"` takes x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 instead.

    >>> import numpy as np, metalcore
    >>> metalcore.gelu(np.array([0.0, 1.0, 100.0], np.float32)).round(4)
    array([  0.    ,   0.8413, 100.    ], dtype=float32)
    """
    check_float("gelu", "input", input)
    return OP(input, check_approximate("gelu", approximate))


@stage("(Tensor x, bool is_tanh) -> Tensor y")
def forward(run: Runtime, x: Any, is_tanh: bool) -> tuple[Any, ...]:
    return sweep(run, FORWARD, (is_tanh,), dict(x=x), ("y",))


@stage("(Tensor grad_y, Tensor x, bool is_tanh) -> Tensor dx")
def backward(run: Runtime, grad_y: Any, x: Any, is_tanh: bool) -> tuple[Any, ...]:
    return sweep(run, BACKWARD, (is_tanh,), dict(g=grad_y, x=x), ("dx",))


def accepts(input: Any, approximate: str = "none") -> str:
    return left_to_torch(input)


OP = declare("gelu", "x times the share of the normal distribution below x", forward, backward, accepts)
