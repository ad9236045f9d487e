"""What the xLSTM modules of mlx are made of: norms, convolution, products a head, the feed-forward part."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import metalcore.mlx as ops
from metalcore.ops.base.check import check_shape, refuse
from metalcore.ops.base.xlstm_configs import checked, parts, up_size
from metalcore.packages import needed_for

with needed_for("metalcore.mlx.nn"):
    from mlx.nn.layers.base import Module

# Their stubs do not say what these modules have.
mx: Any = import_module("mlx.core")
nn: Any = import_module("mlx.nn")

ACTIVATIONS: dict[str, Any] = {
    "gelu": ops.gelu,
    "relu": nn.relu,
    "relu^2": nn.relu2,
    "sigmoid": mx.sigmoid,
    "swish": ops.silu,
    "selu": nn.selu,
}


class Base(Module):
    """A module of mlx whose constructor says its types."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class xLSTMLayerNorm(Base):
    """Layer norm over the last dimension, with `1 + weight` as its weight."""

    def __init__(self, ndim: int, weight: bool = True, bias: bool = False, eps: float = 1e-5) -> None:
        super().__init__()
        self.ndim, self.eps = ndim, eps
        self.weight = mx.zeros(ndim) if weight else None
        self.bias = mx.zeros(ndim) if bias else None

    def __call__(self, x: Any) -> Any:
        weight = None if self.weight is None else 1.0 + self.weight
        return ops.layer_norm(x, (self.ndim,), weight, self.bias, self.eps)


class MultiHeadLayerNorm(xLSTMLayerNorm):
    """Each head of (batch, heads, tokens, depth) normed for itself; weight and bias hold all heads."""

    def __call__(self, x: Any) -> Any:
        if x.ndim != 4 or x.shape[1] * x.shape[3] != self.ndim:
            expected = f"of shape (batch, heads, tokens, depth), {self.ndim} elements a token"
            refuse(type(self).__name__, "x", expected, f"of shape {tuple(x.shape)}")
        _, heads, _, depth = x.shape
        found = ops.layer_norm(x, (depth,), None, None, self.eps)
        if self.weight is not None:
            found = found * (1.0 + self.weight).reshape(heads, 1, depth)
        return found if self.bias is None else found + self.bias.reshape(heads, 1, depth)


class _Weights(Base):
    """The weight (features, 1, width) of a convolution, under the name that torch gives it."""

    def __init__(self, features: int, width: int, bias: bool) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = mx.random.uniform(-bound, bound, (features, 1, width))
        self.bias = mx.random.uniform(-bound, bound, (features,)) if bias else None


class CausalConv1d(Base):
    """Each feature of x (batch, tokens, features) convolved with what came before, then silu where it is asked for."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.size = checked(type(self).__name__, config, "feature_dim")
        self.pad = checked(type(self).__name__, config, "kernel_size") - 1
        self.conv = _Weights(self.size, self.pad + 1, config.causal_conv_bias)

    def __call__(self, x: Any, conv_state: Any = None, activation: str | None = None) -> tuple[Any, Any]:
        """The state, (batch, kernel_size - 1, features), are the last tokens; None: zeros."""
        before = mx.zeros((x.shape[0], self.pad, self.size), x.dtype) if conv_state is None else conv_state
        check_shape(type(self).__name__, "conv_state", before, (x.shape[0], self.pad, self.size))
        weight = self.conv.weight.squeeze(1)
        y, last = ops.causal_conv1d(x.swapaxes(1, 2), weight, self.conv.bias, before.swapaxes(1, 2), activation)
        return y.swapaxes(1, 2), last.swapaxes(1, 2)


class LinearHeadwiseExpand(Base):
    """A product for each of `num_heads` equal parts of the last dimension."""

    def __init__(self, size: int, num_heads: int, bias: bool, dim: int) -> None:
        super().__init__()
        depth = parts(type(self).__name__, "the width", size, "num_heads", num_heads)
        self.weight = mx.random.normal((num_heads, depth, depth)) * math.sqrt(2 / (5 * dim))
        self.bias = mx.zeros(size) if bias else None

    def __call__(self, x: Any) -> Any:
        heads, _, depth = self.weight.shape
        rows = x.reshape(math.prod(x.shape[:-1]), heads, depth).swapaxes(0, 1)  # a product a head, not a token and head
        y = (rows @ self.weight.swapaxes(1, 2)).swapaxes(0, 1).reshape(x.shape)
        return y if self.bias is None else y + self.bias


class GatedFeedForward(Base):
    """proj_down(activation(gate) * up), where proj_up gives gate and up."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        name = type(self).__name__
        if config.act_fn not in ACTIVATIONS:
            refuse(name, "act_fn", f"one of {', '.join(ACTIVATIONS)}", repr(config.act_fn))
        inner, size = up_size(name, config), config.embedding_dim
        self.act_fn = config.act_fn
        self.proj_up = nn.Linear(size, 2 * inner, bias=config.bias)
        self.proj_down = nn.Linear(inner, size, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)
        first_weights_(self.proj_up, self.proj_down, config)

    def __call__(self, x: Any) -> Any:
        gate, up = mx.split(self.proj_up(x), 2, -1)
        return self.dropout(self.proj_down(ACTIVATIONS[self.act_fn](gate) * up))


def first_weights_(up: Any, down: Any, config: Any) -> None:
    """First weights of projections up and down, smaller on the way down the more blocks are added up."""
    up.weight = mx.random.normal(up.weight.shape) * math.sqrt(2 / (5 * config.embedding_dim))
    down.weight = mx.random.normal(down.weight.shape) * (2 / (config._num_blocks or 1) / config.embedding_dim**0.5)
    if config.bias:
        up.bias, down.bias = mx.zeros_like(up.bias), mx.zeros_like(down.bias)
