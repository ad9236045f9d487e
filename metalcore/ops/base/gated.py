"""What geglu and swiglu share: checks, plans and the declaration of activation(gate) times up."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, check_shape
from metalcore.ops.base.elementwise import benchmarks, check_alike, sweep
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel
from metalcore.runtimes.runtime import Runtime


def check_gated(op: str, gate: Any, up: Any) -> None:
    check_float(op, "gate", gate)
    check_shape(op, "up", up, tuple(gate.shape))


def declare(noun: str, summary: str, constants: tuple[str, ...] = ()) -> Op:
    """The op of one noun; `constants` are function constants of its kernels, all of them bool, and its last inputs."""
    forward_kernel, backward_kernel = (Kernel(noun, f"{noun}_{way}", constants) for way in ("forward", "backward"))
    more = "".join(f", bool {name}" for name in constants)

    @stage(f"(Tensor gate, Tensor up{more}) -> Tensor y")
    def forward(run: Runtime, gate: Any, up: Any, *flags: bool) -> tuple[Any, ...]:
        check_alike(noun, run, gate, up=up)
        return sweep(run, forward_kernel, flags, dict(gate=gate, up=up), ("y",))

    @stage(f"(Tensor grad_y, Tensor gate, Tensor up{more}) -> (Tensor dgate, Tensor dup)")
    def backward(run: Runtime, grad_y: Any, gate: Any, up: Any, *flags: bool) -> tuple[Any, ...]:
        return sweep(run, backward_kernel, flags, dict(g=grad_y, gate=gate, up=up), ("dgate", "dup"))

    return Op(
        noun,
        summary,
        forward,
        backward,
        batched=("gate", "up"),
        autocast="promote",
        benchmarks=benchmarks(lambda torch, dtype, shape: [torch.randn(shape, dtype=dtype) for _ in range(2)], 1.5),
    )
