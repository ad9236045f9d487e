"""Values bent towards a cap: kernels/softcap.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.elementwise import benchmarks, sweep
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("softcap", "softcap_forward")
BACKWARD = Kernel("softcap", "softcap_backward")


def softcap(x: Any, cap: float) -> Any:
    """`cap` tanh(`x` / `cap`): about x where it is small, never beyond -cap and cap.

    >>> import numpy as np, metalcore
    >>> metalcore.softcap(np.array([0.0, 1e9], np.float32), 30.0)
    array([ 0., 30.], dtype=float32)
    """
    check_float("softcap", "x", x)
    if not isinstance(cap, (int, float)) or not 0 < cap < math.inf:
        refuse("softcap", "cap", "a number above 0", repr(cap))
    return OP(x, float(cap))


@stage("(Tensor x, float cap) -> Tensor y")
def forward(run: Runtime, x: Any, cap: float) -> tuple[Any, ...]:
    return sweep(run, FORWARD, (), dict(x=x), ("y",), cap=cap)


@stage("(Tensor grad_y, Tensor x, float cap) -> Tensor dx")
def backward(run: Runtime, grad_y: Any, x: Any, cap: float) -> tuple[Any, ...]:
    return sweep(run, BACKWARD, (), dict(g=grad_y, x=x), ("dx",), cap=cap)


OP = Op(
    "softcap",
    "cap * tanh(x / cap)",
    forward,
    backward,
    batched=("x",),
    benchmarks=benchmarks(lambda torch, dtype, shape: (30 * torch.randn(shape, dtype=dtype), 30.0), 1.5),
)
