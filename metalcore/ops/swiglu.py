"""A gated unit, silu(gate) times up: kernels/swiglu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, check_shape
from metalcore.ops.base.elementwise import benchmarks, check_alike, sweep
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("swiglu", "swiglu_forward")
BACKWARD = Kernel("swiglu", "swiglu_backward")


def swiglu(gate: Any, up: Any) -> Any:
    """silu(`gate`) times `up`, without the product's first factor in memory.

    >>> import numpy as np, metalcore
    >>> metalcore.swiglu(np.array([0.0, 100.0], np.float32), np.array([3.0, 2.0], np.float32))
    array([  0., 200.], dtype=float32)
    """
    check_float("swiglu", "gate", gate)
    check_shape("swiglu", "up", up, tuple(gate.shape))
    return OP(gate, up)


def forward(run: Runtime, gate: Any, up: Any) -> tuple[Any, ...]:
    check_alike("swiglu", run, gate, up=up)
    return sweep(run, FORWARD, (), dict(gate=gate, up=up), ("y",))


def backward(run: Runtime, grad_y: Any, gate: Any, up: Any) -> tuple[Any, ...]:
    return sweep(run, BACKWARD, (), dict(g=grad_y, gate=gate, up=up), ("dgate", "dup"))


OP = Op(
    noun="swiglu",
    summary="silu(gate) * up",
    forward=Stage("(Tensor gate, Tensor up) -> Tensor y", forward),
    backward=Stage("(Tensor grad_y, Tensor gate, Tensor up) -> (Tensor dgate, Tensor dup)", backward),
    gradients=("gate", "up"),
    batched=("gate", "up"),
    autocast="promote",
    benchmarks=benchmarks(lambda torch, dtype, shape: [torch.randn(shape, dtype=dtype) for _ in range(2)], 1.5),
)
