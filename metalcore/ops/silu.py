"""x times its logistic function: kernels/silu.metal."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.elementwise import declare, left_to_torch, sweep
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("silu", "silu_forward")
BACKWARD = Kernel("silu", "silu_backward")


def silu(input: Any, inplace: bool = False) -> Any:
    """`input` / (1 + e^-`input`), as torch.nn.functional.silu. With `inplace` the result is written into `input`.

    >>> import numpy as np, metalcore
    >>> metalcore.silu(np.array([0.0, 100.0], np.float32))
    array([  0., 100.], dtype=float32)
    """
    check_float("silu", "input", input)
    return _written_into(input) if inplace else OP(input)


def _written_into(x: Any) -> Any:
    """The result in the memory of `x`. The gradient needs what was there before, so it gets a copy."""
    if isinstance(x, np.ndarray):
        x[...] = OP(x)
        return x
    if not hasattr(x, "copy_"):
        refuse("silu", "inplace", "False: arrays of this framework do not change", "True")
    return x.copy_(OP(x.clone() if x.requires_grad else x))


@stage("(Tensor x) -> Tensor y")
def forward(run: Runtime, x: Any) -> tuple[Any, ...]:
    return sweep(run, FORWARD, (), dict(x=x), ("y",))


@stage("(Tensor grad_y, Tensor x) -> Tensor dx")
def backward(run: Runtime, grad_y: Any, x: Any) -> tuple[Any, ...]:
    return sweep(run, BACKWARD, (), dict(g=grad_y, x=x), ("dx",))


def accepts(input: Any, inplace: bool = False) -> str:
    return "it is to be done in place" if inplace else left_to_torch(input)


OP = declare("silu", "x / (1 + exp(-x))", forward, backward, accepts)
