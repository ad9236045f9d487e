"""Kullback-Leibler divergence of log-probabilities: kernels/kl_div.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, check_shape, dtype_name, refuse
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.reduction import check_reduction
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("kl_div", "kl_div_forward")
FINISH = Kernel("kl_div", "kl_div_finish")
BACKWARD = Kernel("kl_div", "kl_div_backward")
REDUCTIONS = ("none", "mean", "batchmean", "sum")
IS_LOG, IS_ELEMENTS, WANTS_X, WANTS_TARGET = 1, 2, 4, 8  # as in the kernel


def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target * (log target - input), summed or averaged, as torch.nn.functional.kl_div: `input` holds logarithms.

    With `log_target` the target holds logarithms too. Both have one shape and dtype.

    >>> import numpy as np, metalcore
    >>> p = np.array([[0.5, 0.5]], np.float32)
    >>> metalcore.kl_div(np.log(p), p, reduction="batchmean")
    array(0., dtype=float32)
    """
    reduction = check_reduction("kl_div", reduction, size_average, reduce, REDUCTIONS)
    dtype = check_float("kl_div", "input", input)
    check_shape("kl_div", "target", target, tuple(input.shape))
    if dtype_name(target) != dtype:
        refuse("kl_div", "target", f"of the input's dtype {dtype}", f"of dtype {dtype_name(target)}")
    return OP(input, target, reduction, bool(log_target))


def _divisor(shape: tuple[int, ...], reduction: str) -> float:
    if reduction == "mean":
        return float(math.prod(shape))
    return float(shape[0] if shape else 1) if reduction == "batchmean" else 1.0


@stage("(Tensor input, Tensor target, str reduction, bool log_target) -> Tensor loss")
def forward(run: Runtime, input: Any, target: Any, reduction: str, log_target: bool) -> tuple[Any, ...]:
    dtype, shape = run.dtype(input), tuple(input.shape)
    x, target = run.contiguous(input), run.contiguous(target)
    count = math.prod(shape)
    chosen = policy("kl_div", run.family, dtype)
    each, group = chosen["chunk"], (chosen["threads"],)
    blocks = -(-count // each)
    by_element = reduction == "none"
    flags = (IS_LOG if log_target else 0) | (IS_ELEMENTS if by_element else 0)
    losses, sums = run.launch(
        FORWARD,
        (dtype,),
        (),
        dict(
            x=x,
            target=target,
            losses=Out(shape if by_element else (0,), dtype),
            sums=Out((0 if by_element else blocks,), accumulator(dtype)),
            count=count,
            each=each,
            options=flags,
        ),
        (blocks,),
        group,
    )
    if by_element:
        return (losses,)
    arguments = dict(sums=sums, loss=Out((), dtype), blocks=blocks, divisor=_divisor(shape, reduction))
    return tuple(run.launch(FINISH, (dtype,), (), arguments, (1,), group))


@stage(
    "(Tensor grad_loss, Tensor input, Tensor target, str reduction, bool log_target, bool[] wanted) -> "
    "(Tensor dinput, Tensor dtarget)"
)
def backward(
    run: Runtime, grad_loss: Any, input: Any, target: Any, reduction: str, log_target: bool, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    dtype, shape = run.dtype(input), tuple(input.shape)
    g, x, target = run.contiguous(grad_loss), run.contiguous(input), run.contiguous(target)
    count = math.prod(shape)
    chosen = policy("kl_div", run.family, dtype)
    flags = (IS_LOG if log_target else 0) | (IS_ELEMENTS if reduction == "none" else 0)
    flags |= (WANTS_X if wanted[0] else 0) | (WANTS_TARGET if wanted[1] else 0)
    arguments = dict(g=g, x=x, target=target)
    arguments |= dict(dx=Out(shape if wanted[0] else (0,), dtype), dtarget=Out(shape if wanted[1] else (0,), dtype))
    arguments |= dict(count=count, each=chosen["chunk"], divisor=_divisor(shape, reduction), options=flags)
    blocks = -(-count // chosen["chunk"])
    return tuple(run.launch(BACKWARD, (dtype,), (), arguments, (blocks,), (chosen["threads"],)))


def accepts(input: Any, target: Any, *rest: Any, **named: Any) -> str:
    if dtype_name(input) not in ("float32", "float16", "bfloat16") or dtype_name(target) != dtype_name(input):
        return f"input of dtype {dtype_name(input)}, target of dtype {dtype_name(target)}"
    return "" if tuple(input.shape) == tuple(target.shape) else "input and target of different shapes"


def _make(rows: int, width: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        x = torch.log_softmax(torch.randn(rows, width), -1).to(dtype)
        return (x, torch.softmax(torch.randn(rows, width), -1).to(dtype)), {"reduction": "batchmean"}

    return make


OP = Op(
    "kl_div",
    "target * (log target - x), summed or averaged",
    forward,
    backward,
    autocast="float32",
    namesake="torch.nn.functional.kl_div",
    override_from=1 << 16,
    accepts=accepts,
    benchmarks=[
        Benchmark(f"{rows}x{width}", _make(rows, width), rows * width, targets={"*": 1.0})
        for rows, width in ((64, 1000), (512, 32000))
    ],
)
