"""A convolution of each channel with what came before, as state space models use it: kernels/causal_conv1d.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, check_shape, refuse
from metalcore.ops.base.elementwise import check_alike
from metalcore.ops.base.launch import accumulator, column_sum
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("causal_conv1d", "causal_conv1d_forward", ("is_silu",))
SHORT = Kernel("causal_conv1d", "causal_conv1d_short", ("is_silu",))
BACKWARD = Kernel("causal_conv1d", "causal_conv1d_backward", ("is_silu", "is_exact"))
ACTIVATIONS = (None, "silu", "swish")


def causal_conv1d(x: Any, weight: Any, bias: Any = None, state: Any = None, activation: str | None = None) -> Any:
    """Each channel of `x` (batch, channels, length) convolved with its row of `weight` (channels, width).

    Element t sees x[t - width + 1] to x[t]. What stands before x is `state` (batch, channels, width - 1), or 0. With a
    state the result is (y, new_state): the last inputs, for the next call. `activation`: None, "silu" or "swish".

    >>> import numpy as np, metalcore
    >>> x = np.array([[[1.0, 2.0, 3.0]]], np.float32)
    >>> metalcore.causal_conv1d(x, np.array([[10.0, 1.0]], np.float32))
    array([[[ 1., 12., 23.]]], dtype=float32)
    """
    op = "causal_conv1d"
    check_float(op, "x", x)
    check_float(op, "weight", weight)
    if len(x.shape) != 3:
        refuse(op, "x", "of shape (batch, channels, length)", f"of shape {tuple(x.shape)}")
    batch, channels = x.shape[:2]
    if len(weight.shape) != 2 or weight.shape[0] != channels or weight.shape[1] == 0:
        refuse(op, "weight", f"of shape ({channels}, width)", f"of shape {tuple(weight.shape)}")
    if bias is not None:
        check_float(op, "bias", bias)
        check_shape(op, "bias", bias, (channels,))
    if state is not None:
        check_float(op, "state", state)
        check_shape(op, "state", state, (batch, channels, weight.shape[1] - 1))
    if activation not in ACTIVATIONS:
        refuse(op, "activation", "None, 'silu' or 'swish'", repr(activation))
    y, new_state = OP(x, weight, bias, state, activation is not None)
    return y if state is None else (y, new_state)


def _prepare(run: Runtime, x: Any, weight: Any, bias: Any, state: Any) -> dict[str, Any]:
    """Contiguous arrays, where x stands for what is not given, and the numbers that all kernels take."""
    _, channels, length = x.shape
    x = run.contiguous(x)
    return dict(
        x=x,
        weight=run.contiguous(weight),
        bias=x if bias is None else run.contiguous(bias),
        state=x if state is None else run.contiguous(state),
        channels=channels,
        length=length,
        width=weight.shape[1],
        has_bias=int(bias is not None),
        has_state=int(state is not None),
    )


@stage("(Tensor x, Tensor weight, Tensor? bias, Tensor? state, bool is_silu) -> (Tensor y, Tensor new_state)")
def forward(run: Runtime, x: Any, weight: Any, bias: Any, state: Any, is_silu: bool) -> tuple[Any, ...]:
    dtype = check_alike("causal_conv1d", run, x, weight=weight, bias=bias, state=state)
    arguments = dict(_prepare(run, x, weight, bias, state))
    arguments |= dict(y=Out(tuple(x.shape), dtype), new_state=Out((0,) if state is None else tuple(state.shape), dtype))
    batch, channels, length = x.shape
    chosen = policy("causal_conv1d", run.family, dtype)
    kernel, groups, threads = FORWARD, channels, chosen["threads"]
    if length <= chosen["short"]:
        kernel, threads = SHORT, chosen["channel_threads"]
        groups = -(-channels // threads)
    return tuple(run.launch(kernel, (dtype,), (is_silu,), arguments, (groups, batch, 1), (threads, 1, 1)))


@stage(
    "(Tensor grad_y, Tensor grad_new_state, Tensor x, Tensor weight, Tensor? bias, Tensor? state, bool is_silu,"
    " bool[] wanted) -> (Tensor dx, Tensor dweight, Tensor dbias, Tensor dstate)"
)
def backward(
    run: Runtime,
    grad_y: Any,
    grad_new_state: Any,
    x: Any,
    weight: Any,
    bias: Any,
    state: Any,
    is_silu: bool,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    dtype, shape = run.dtype(x), tuple(x.shape)
    batch, channels = shape[:2]
    wide, chosen = accumulator(dtype), policy("causal_conv1d", run.family, dtype)
    is_exact = dtype == "float32" and channels <= chosen["exact_channels"]
    arguments = dict(
        _prepare(run, x, weight, bias, state),
        g=run.contiguous(grad_y),
        g_state=run.contiguous(grad_new_state),
        dx=Out(shape, dtype),
        dstate=Out((0,) if state is None else tuple(state.shape), dtype),
        d=Out(shape, wide),
        d_errors=Out(shape if is_exact and is_silu else (0,), wide),
        shares=Out((batch, channels * weight.shape[1]), wide),
        bias_shares=Out((batch, channels), wide),
    )
    groups, group = (channels, batch, 1), (chosen["threads"], 1, 1)
    dx, dstate, *_, shares, bias_shares = run.launch(BACKWARD, (dtype,), (is_silu, is_exact), arguments, groups, group)
    dweight = column_sum(run, shares, tuple(weight.shape), dtype) if wanted[1] else run.empty((0,), dtype)
    has_bias = bias is not None and wanted[2]
    dbias = column_sum(run, bias_shares, (channels,), dtype) if has_bias else run.empty((0,), dtype)
    return dx, dweight, dbias, dstate


def _make(batch: int, channels: int, length: int, width: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        shapes = ((batch, channels, length), (channels, width), (channels,))
        return (*(torch.randn(s, dtype=dtype) for s in shapes), None, "silu"), {}

    return make


OP = Op(
    "causal_conv1d",
    "each channel convolved with what came before, with a state for decoding",
    forward,
    backward,
    autocast="promote",
    benchmarks=[
        Benchmark(f"{b}x{c}x{n}, width {w}", _make(b, c, n, w), b * c * n, targets={"*": 1.0})
        for b, c, n, w in ((1, 4096, 1, 4), (1, 1536, 512, 4), (1, 4096, 2048, 4), (4, 2048, 1024, 4))
    ],
)
