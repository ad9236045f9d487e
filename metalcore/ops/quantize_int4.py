"""Weights to 4-bit numbers with a scale and a zero for each group: kernels/quantize_int4.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.quantized import LANES, check_group_size
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

KERNEL = Kernel("quantize_int4", "quantize_int4", ("symmetric",))


def quantize_int4(weight: Any, group_size: int = 128, symmetric: bool = False) -> tuple[Any, Any, Any]:
    """A matrix (out, in) as 4-bit numbers: (packed, scales, zeros), with `weight` close to (q - zeros) * scales.

    `packed` is uint8 (out, in / 2), two numbers from 0 to 15 in a byte, the one of the lower column in the low half.
    `scales` and `zeros` are (out, groups) in the dtype of `weight`: each row has a pair for every `group_size` columns;
    the last group may be shorter. Zeros are whole numbers; `symmetric` makes all of them 8. `weight` has an even number
    of columns and finite values.

    >>> import numpy as np, metalcore
    >>> packed, scales, zeros = metalcore.quantize_int4(np.array([[0, 1, 2, 15]], np.float32), group_size=4)
    >>> packed, scales, zeros
    (array([[ 16, 242]], dtype=uint8), array([[1.]], dtype=float32), array([[0.]], dtype=float32))
    """
    check_float("quantize_int4", "weight", weight)
    if len(weight.shape) != 2 or weight.shape[1] % 2:
        refuse("quantize_int4", "weight", "a matrix with an even number of columns", f"of shape {tuple(weight.shape)}")
    if not isinstance(symmetric, bool):
        refuse("quantize_int4", "symmetric", "True or False", repr(symmetric))
    found: tuple[Any, Any, Any] = OP(weight, check_group_size("quantize_int4", group_size), symmetric)
    return found


@stage("(Tensor weight, int group_size, bool symmetric) -> (Tensor packed, Tensor scales, Tensor zeros)")
def forward(run: Runtime, weight: Any, group_size: int, symmetric: bool) -> tuple[Any, ...]:
    dtype = run.dtype(weight)
    outs, width = weight.shape
    outputs = dict(
        packed=Out((outs, width // 2), "uint8"),
        scales=Out((outs, -(-width // group_size)), dtype),
        zeros=Out((outs, -(-width // group_size)), dtype),
    )
    arguments = dict(weight=run.contiguous(weight), **outputs, width=width, group_size=group_size)
    return tuple(run.launch(KERNEL, (dtype,), (symmetric,), arguments, (outs,), (LANES,)))


def _make(torch: Any, dtype: Any) -> Any:
    return (torch.randn(4096, 4096, dtype=dtype), 128), {}


OP = Op(
    "quantize_int4",
    "q = clamp(round(w / scale) + zero, 0, 15) by groups, two in a byte",
    forward,
    benchmarks=[Benchmark("4096x4096", _make, 1 << 24)],
)
