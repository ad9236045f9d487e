"""4-bit numbers back to weights: kernels/dequantize_int4.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.base.quantized import LANES, check_packed
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

KERNEL = Kernel("dequantize_int4", "dequantize_int4")


def dequantize_int4(packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    """The matrix (q - zeros) * scales, in the dtype of `scales`; the parts are those of metalcore.quantize_int4.

    >>> import numpy as np, metalcore
    >>> parts = metalcore.quantize_int4(np.array([[0, 1, 2, 15]], np.float32), group_size=4)
    >>> metalcore.dequantize_int4(*parts, group_size=4)
    array([[ 0.,  1.,  2., 15.]], dtype=float32)
    """
    check_packed("dequantize_int4", packed, scales, zeros, group_size)
    return OP(packed, scales, zeros, group_size)


@stage("(Tensor packed, Tensor scales, Tensor zeros, int group_size) -> Tensor weight")
def forward(run: Runtime, packed: Any, scales: Any, zeros: Any, group_size: int) -> tuple[Any, ...]:
    dtype = run.dtype(scales)
    outs, width = packed.shape[0], 2 * packed.shape[1]
    arguments = dict(packed=run.contiguous(packed), scales=run.contiguous(scales), zeros=run.contiguous(zeros))
    arguments |= dict(weight=Out((outs, width), dtype), width=width, group_size=group_size)
    return tuple(run.launch(KERNEL, (dtype,), (), arguments, (outs,), (LANES,)))


def _make(torch: Any, dtype: Any) -> Any:
    packed = torch.randint(0, 256, (4096, 2048), dtype=torch.uint8)
    scales, zeros = torch.rand(4096, 32).to(dtype), torch.full((4096, 32), 7.0, dtype=dtype)
    return (packed, scales, zeros, 128), {}


OP = Op(
    "dequantize_int4", "w = (q - zero) scale by groups", forward, benchmarks=[Benchmark("4096x4096", _make, 1 << 24)]
)
