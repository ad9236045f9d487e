"""Cross entropy of logits, fused with log-softmax: kernels/cross_entropy.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_float, check_shape, dtype_name, refuse
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.reduction import check_reduction
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("cross_entropy", "cross_entropy_forward", ("in_columns", "is_capped"))
FINISH = Kernel("cross_entropy", "cross_entropy_finish")
BACKWARD = Kernel("cross_entropy", "cross_entropy_backward", ("in_columns", "is_capped"))
IS_WEIGHTED, IS_MEAN, IS_PER_ROW, WANTS_TARGET = 1, 2, 4, 8  # as in the kernel
CLASSES = ("int64", "int32", "int16", "int8", "uint32", "uint8")


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    z_loss: float = 0.0,
    softcap: float | None = None,
    float32_loss: bool = False,
) -> Any:
    """-log softmax(input) at the target, as torch.nn.functional.cross_entropy: logits (N, C), (N, C, d1, ...) or (C).

    The target holds classes, or probabilities of the input's shape and dtype. `z_loss` adds z_loss * logsumexp^2 to
    the loss of each row that is not ignored; `softcap` takes softcap * tanh(input / softcap) for the logits. Logits
    are not copied; backward writes their gradient and nothing else of that size. `float32_loss`: the loss of float16
    and bfloat16 logits is not rounded to their type.

    A class that is out of range and not `ignore_index` raises IndexRangeError on the CPU. On a GPU the row's loss and
    gradient are NaN: to look at it there would wait for the device (METALCORE_CHECK_GPU=1 does).

    >>> import numpy as np, metalcore
    >>> metalcore.cross_entropy(np.zeros((3, 8), np.float32), np.array([1, 7, -100]))  # log(8)
    array(2.0794415, dtype=float32)
    """
    reduction = check_reduction("cross_entropy", reduction, size_average, reduce, ("none", "mean", "sum"))
    if not isinstance(label_smoothing, (int, float)) or not 0.0 <= label_smoothing <= 1.0:
        refuse("cross_entropy", "label_smoothing", "between 0 and 1", repr(label_smoothing))
    if softcap is not None and (not isinstance(softcap, (int, float)) or not softcap > 0):
        refuse("cross_entropy", "softcap", "None or a number above 0", repr(softcap))
    numbers = (
        int(ignore_index),
        reduction,
        float(label_smoothing),
        float(z_loss),
        float(softcap or 0.0),
        bool(float32_loss),
    )
    return OP(input, target, weight, *numbers)


def check(input: Any, target: Any, weight: Any) -> None:
    """Dtypes and shapes; part of the plan, so that they are looked at once."""
    dtype = check_float("cross_entropy", "input", input)
    shape = tuple(input.shape)
    if not shape:
        refuse("cross_entropy", "input", "of shape (C), (N, C) or (N, C, d1, ...)", "a scalar")
    kind = dtype_name(target)
    if kind in CLASSES:
        check_shape("cross_entropy", "target", target, (*shape[:1], *shape[2:]) if len(shape) > 1 else ())
    elif kind == dtype:
        check_shape("cross_entropy", "target", target, shape)
    else:
        refuse(
            "cross_entropy", "target", f"classes in an integer type, or probabilities in {dtype}", f"of dtype {kind}"
        )
    if weight is not None:
        check_shape("cross_entropy", "weight", weight, (shape[min(1, len(shape) - 1)],))
        if dtype_name(weight) != dtype:
            refuse("cross_entropy", "weight", f"of the input's dtype {dtype}", f"of dtype {dtype_name(weight)}")


class Geometry:
    """Rows, classes and how far classes lie apart, and the launch that goes with them."""

    __slots__ = ("classes", "group", "groups", "rows", "stride", "vector")

    def __init__(self, run: Runtime, dtype: str, shape: tuple[int, ...]) -> None:
        batch = shape[0] if len(shape) > 1 else 1
        self.classes = shape[1] if len(shape) > 1 else shape[0]
        self.stride = math.prod(shape[2:])
        self.rows = batch * self.stride
        if self.stride <= 1:
            self.vector, self.group = row_launch(run, "cross_entropy", dtype, self.classes)
            self.groups: tuple[int, ...] = (self.rows,)
        else:
            self.vector = 1
            threads = min(policy("cross_entropy", run.family, dtype)["column_threads"], -(-self.stride // 32) * 32)
            self.group = (threads,)
            self.groups = (-(-self.stride // threads), batch)

    def numbers(self, ignore_index: int, smoothing: float, z_loss: float, cap: float, options: int) -> dict[str, Any]:
        """What both kernels take, by the names of their parameters."""
        own = dict(classes=self.classes, stride=self.stride, ignore_index=ignore_index)
        return own | dict(smoothing=smoothing, z_loss=z_loss, cap=cap, options=options)


def _flags(weight: Any, reduction: str) -> int:
    flags = {"mean": IS_MEAN, "none": IS_PER_ROW}.get(reduction, 0)
    return flags if weight is None else flags | IS_WEIGHTED


_NUMBERS = "int ignore_index, str reduction, float smoothing, float z_loss, float softcap, bool float32_loss"


@stage(f"(Tensor input, Tensor target, Tensor? weight, {_NUMBERS}) -> (Tensor loss, Tensor state, Tensor divisor)")
def forward(run: Runtime, input: Any, target: Any, weight: Any, *options: Any) -> tuple[Any, ...]:
    ignore_index, reduction, smoothing, z_loss, softcap, float32_loss = options
    check(input, target, weight)
    dtype, kind = run.dtype(input), run.dtype(target)
    shape = tuple(input.shape)
    flags = _flags(weight, reduction)
    x, target = run.contiguous(input), run.contiguous(target)
    weight = x if weight is None else run.contiguous(weight)  # without IS_WEIGHTED it is not read
    at = Geometry(run, dtype, shape)
    exact = accumulator(dtype)
    numbers = at.numbers(ignore_index, smoothing, z_loss, softcap, flags)
    losses, state = run.launch(
        FORWARD,
        (dtype, kind, at.vector),
        (at.stride > 1, softcap > 0.0),
        dict(
            x=x,
            target=target,
            weight=weight,
            losses=Out((at.rows,), exact),
            state=Out((at.rows, 2), exact),
            **numbers,
        ),
        at.groups,
        at.group,
    )
    kept = exact if float32_loss else dtype
    out = (shape[:1] + shape[2:] if len(shape) > 1 else ()) if reduction == "none" else ()
    loss, divisor, errors = run.launch(
        FINISH,
        (dtype, kind, kept),
        (),
        dict(
            losses=losses,
            target=target,
            weight=weight,
            loss=Out(out, kept),
            divisor=Out((1,), exact),
            errors=Out((1, 3), "int64"),
            rows=at.rows,
            classes=at.classes,
            ignore_index=ignore_index,
            options=flags,
        ),
        (1,),
        (policy("cross_entropy", run.family, dtype)["threads"],),
    )
    if kind in CLASSES:
        run.check_errors(errors, lambda row, value: _explain(row, value, at.classes))
    return loss, state, divisor


def _explain(row: int, value: int, classes: int) -> str:
    return f"cross_entropy: target {value} of row {row} is out of range: there are {classes} classes"


@stage(
    "(Tensor grad_loss, Tensor input, Tensor target, Tensor? weight, Tensor state, Tensor divisor, "
    f"{_NUMBERS}, bool[] wanted) -> (Tensor dinput, Tensor dtarget)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    grad_loss, input, target, weight, state, divisor, *options, wanted = values
    ignore_index, reduction, smoothing, z_loss, softcap, float32_loss = options
    dtype, kind = run.dtype(input), run.dtype(target)
    flags = _flags(weight, reduction)
    x, target, g = run.contiguous(input), run.contiguous(target), run.contiguous(grad_loss)
    weight = x if weight is None else run.contiguous(weight)
    shape = tuple(x.shape)
    at = Geometry(run, dtype, shape)
    of_target: tuple[int, ...] = (0,)
    if kind not in CLASSES and wanted[1]:
        flags |= WANTS_TARGET
        of_target = shape
    numbers = at.numbers(ignore_index, smoothing, z_loss, softcap, flags)
    dx, dtarget = run.launch(
        BACKWARD,
        (dtype, kind, accumulator(dtype) if float32_loss else dtype, at.vector),
        (at.stride > 1, softcap > 0.0),
        dict(
            g=g,
            x=x,
            target=target,
            weight=weight,
            state=state,
            divisor=divisor,
            dx=Out(shape, dtype),
            dtarget=Out(of_target, dtype),
            **numbers,
        ),
        at.groups,
        at.group,
    )
    return dx, dtarget


def accepts(input: Any, target: Any, weight: Any = None, *rest: Any, **named: Any) -> str:
    """The override leaves to torch what this op refuses or would do in another dtype."""
    if dtype_name(input) not in ("float32", "float16", "bfloat16") or not tuple(input.shape):
        return f"input of dtype {dtype_name(input)}"
    if dtype_name(target) not in ("int64", "uint8", dtype_name(input)):
        return f"target of dtype {dtype_name(target)}"
    if weight is not None and (getattr(weight, "requires_grad", False) or dtype_name(weight) != dtype_name(input)):
        return "weight requires grad or has a dtype of its own"
    return ""


def _make(rows: int, classes: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        return (torch.randn(rows, classes, dtype=dtype), torch.randint(0, classes, (rows,))), {}

    return make


OP = Op(
    "cross_entropy",
    "-log softmax(x) at the target: classes or probabilities, with smoothing, weights, z-loss",
    forward,
    backward,
    kept=2,
    autocast="float32",
    namesake="torch.nn.functional.cross_entropy",
    override_from=1 << 18,
    accepts=accepts,
    benchmarks=[
        Benchmark(f"{rows}x{classes}", _make(rows, classes), rows * classes, targets={"*": 1.5})
        for rows, classes in ((1, 32000), (512, 32000), (1024, 50257), (256, 128256))
    ],
)
