"""A gated unit, gelu(gate) times up: kernels/geglu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, check_shape
from metalcore.ops.base.elementwise import benchmarks, check_alike, check_approximate, sweep
from metalcore.ops.base.op import Op, Stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("geglu", "geglu_forward", ("is_tanh",))
BACKWARD = Kernel("geglu", "geglu_backward", ("is_tanh",))


def geglu(gate: Any, up: Any, approximate: str = "none") -> Any:
    """gelu(`gate`) times `up`; `approximate` is that of gelu.

    >>> import numpy as np, metalcore
    >>> metalcore.geglu(np.array([0.0, 100.0], np.float32), np.array([3.0, 2.0], np.float32))
    array([  0., 200.], dtype=float32)
    """
    check_float("geglu", "gate", gate)
    check_shape("geglu", "up", up, tuple(gate.shape))
    return OP(gate, up, check_approximate("geglu", approximate))


def forward(run: Runtime, gate: Any, up: Any, is_tanh: bool) -> tuple[Any, ...]:
    check_alike("geglu", run, gate, up=up)
    return sweep(run, FORWARD, (is_tanh,), dict(gate=gate, up=up), ("y",))


def backward(run: Runtime, grad_y: Any, gate: Any, up: Any, is_tanh: bool) -> tuple[Any, ...]:
    return sweep(run, BACKWARD, (is_tanh,), dict(g=grad_y, gate=gate, up=up), ("dgate", "dup"))


OP = Op(
    noun="geglu",
    summary="gelu(gate) * up",
    forward=Stage("(Tensor gate, Tensor up, bool is_tanh) -> Tensor y", forward),
    backward=Stage("(Tensor grad_y, Tensor gate, Tensor up, bool is_tanh) -> (Tensor dgate, Tensor dup)", backward),
    gradients=("gate", "up"),
    batched=("gate", "up"),
    autocast="promote",
    benchmarks=benchmarks(lambda torch, dtype, shape: [torch.randn(shape, dtype=dtype) for _ in range(2)], 1.5),
)
