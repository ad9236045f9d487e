"""What xLSTM layers are made of: norms, the convolution before the gates, products a head, the feed-forward part."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import metalcore
from metalcore.ops.base.check import check_shape, refuse
from metalcore.ops.base.xlstm_configs import checked, parts, up_size


class xLSTMLayerNorm(nn.Module):
    """Layer norm over the last dimension, with `1 + weight` as its weight: the state holds what differs from 1."""

    def __init__(
        self, ndim: int = -1, weight: bool = True, bias: bool = False, eps: float = 1e-5, residual_weight: bool = True
    ) -> None:
        super().__init__()
        if ndim < 1:
            refuse(type(self).__name__, "ndim", "a number above 0", ndim)
        self.ndim, self.eps, self.residual_weight = ndim, eps, residual_weight
        self.weight = nn.Parameter(torch.empty(ndim)) if weight else None
        self.bias = nn.Parameter(torch.empty(ndim)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.constant_(self.weight, 0.0 if self.residual_weight else 1.0)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @property
    def weight_proxy(self) -> Tensor | None:
        """The weight that the norm multiplies by."""
        return 1.0 + self.weight if self.weight is not None and self.residual_weight else self.weight

    def forward(self, input: Tensor) -> Any:
        return metalcore.layer_norm(input, (self.ndim,), self.weight_proxy, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.ndim}, eps={self.eps}, residual_weight={self.residual_weight}"


class MultiHeadLayerNorm(xLSTMLayerNorm):
    """Each head of (batch, heads, tokens, depth) normed for itself; weight and bias hold all heads, one after another.

    >>> import torch, metalcore.nn
    >>> norm = metalcore.nn.MultiHeadLayerNorm(8)
    >>> norm(torch.arange(16.0).reshape(1, 2, 2, 4))[0, :, 0, 0]
    tensor([-1.3416, -1.3416], grad_fn=<SelectBackward0>)
    """

    def forward(self, input: Tensor) -> Any:
        name = type(self).__name__
        if input.dim() != 4:
            refuse(name, "input", "of shape (batch, heads, tokens, depth)", f"of shape {tuple(input.shape)}")
        _, heads, _, depth = input.shape
        if heads * depth != self.ndim:
            refuse(name, "input", f"of {self.ndim} elements a token", f"of {heads} heads of {depth}")
        found = metalcore.layer_norm(input, (depth,), None, None, self.eps)
        weight = self.weight_proxy
        # The kernel's weight is the same for every row, here each head has its own.
        if weight is not None:
            found = found * weight.view(heads, 1, depth)
        return found if self.bias is None else found + self.bias.view(heads, 1, depth)


class xLSTMCausalConv1d(nn.Module):
    """Each feature of x (batch, tokens, features) convolved with what came before; the state is that of `conv`.

    metalcore.nn.CausalConv1d does the same to (batch, channels, tokens) and has the weights themselves as its state.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name = config, type(self).__name__
        width = config.kernel_size
        if isinstance(width, bool) or not isinstance(width, int) or width < 0:
            refuse(name, "kernel_size", "a number that is not negative", repr(width))
        if config.channel_mixing:
            refuse(name, "channel_mixing", "False", "True")
        if config.conv1d_kwargs:
            refuse(name, "conv1d_kwargs", "empty", config.conv1d_kwargs)
        self.features, self.pad = checked(name, config, "feature_dim"), max(0, width - 1)
        self.conv: nn.Conv1d | None = None
        if width:
            self.conv = nn.Conv1d(
                self.features, self.features, width, groups=self.features, bias=config.causal_conv_bias
            )

    def reset_parameters(self) -> None:
        if self.conv is not None:
            self.conv.reset_parameters()

    def forward(
        self, x: Tensor, conv_state: Any = None, return_last_state: bool = False, activation: str | None = None
    ) -> Any:
        """`conv_state` (batch, n, features) are tokens before x, or what `step` gave. With `return_last_state` also
        the last kernel_size - 1 tokens. `activation` as in metalcore.causal_conv1d."""
        before = self._before(x, conv_state) if return_last_state or conv_state is not None else None
        y, last = self._convolve(x, before, activation)
        return (y, last) if return_last_state else y

    def step(self, x: Tensor, conv_state: Any = None, activation: str | None = None) -> Any:
        """One token; the state is a tuple of one tensor (batch, kernel_size, features) whose last row is x."""
        if x.dim() != 3 or x.shape[1] != 1:
            refuse(f"{type(self).__name__}.step", "x", "of shape (batch, 1, features)", f"of shape {tuple(x.shape)}")
        if self.conv is None:
            return self._convolve(x, None, activation)[0], conv_state
        before = self._before(x, conv_state)
        return self._convolve(x, before, activation)[0], (torch.cat((before, x), 1),)

    def _before(self, x: Tensor, state: Any) -> Tensor:
        """The pad tokens before x: those of a longer state that count, zeros in front of a shorter one."""
        if state is None:
            return x.new_zeros((x.shape[0], self.pad, self.features))
        state = state[0] if isinstance(state, (tuple, list)) else state
        if state.dim() != 3 or state.shape[0] != x.shape[0] or state.shape[2] != self.features:
            expected = f"of shape ({x.shape[0]}, tokens, {self.features})"
            refuse(type(self).__name__, "conv_state", expected, f"of shape {tuple(state.shape)}")
        rows: Tensor = state[:, max(0, state.shape[1] - self.pad) :].to(x)
        missing = self.pad - rows.shape[1]
        return F.pad(rows, (0, 0, missing, 0)) if missing else rows

    def _convolve(self, x: Tensor, before: Tensor | None, activation: str | None) -> tuple[Any, Any]:
        if x.dim() != 3 or x.shape[2] != self.features:
            expected = f"of shape (batch, tokens, {self.features})"
            refuse(type(self).__name__, "x", expected, f"of shape {tuple(x.shape)}")
        if self.conv is None:
            return (x if activation is None else metalcore.silu(x)), before
        found = metalcore.causal_conv1d(
            x.transpose(1, 2),
            self.conv.weight.squeeze(1),
            self.conv.bias,
            None if before is None else before.transpose(1, 2),
            activation,
        )
        y, last = (found, None) if before is None else found
        return y.transpose(1, 2), None if last is None else last.transpose(1, 2)


class LinearHeadwiseExpand(nn.Module):
    """A product for each of `num_heads` equal parts of the last dimension: weight (heads, out / heads, in / heads)."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name = config, type(self).__name__
        size = checked(name, config, "in_features")
        self.heads, depth = config.num_heads, parts(name, "in_features", size, "num_heads", config.num_heads)
        out = config._out_features if config._out_features > 0 else round(config.expand_factor_up * size)
        shape = (self.heads, parts(name, "the result's size", out, "num_heads", self.heads), depth)
        self.weight = nn.Parameter(torch.empty(shape), requires_grad=config.trainable_weight)
        self.bias = nn.Parameter(torch.empty(out), requires_grad=config.trainable_bias) if config.bias else None
        self.reset_parameters()

    def reset_parameters(self, dim: int | None = None) -> None:
        """`dim`: the width that a normal distribution is made for, by default that of a head."""
        small_(self.weight, dim or self.weight.shape[-1])
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...hd,hod->...ho", x.unflatten(-1, (self.heads, -1)), self.weight).flatten(-2)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        heads, out, depth = self.weight.shape
        return f"in_features={heads * depth}, out_features={heads * out}, heads={heads}, bias={self.bias is not None}"


ACTIVATIONS = ("gelu", "relu", "relu^2", "sigmoid", "swish", "selu")


class GatedFeedForward(nn.Module):
    """proj_down(activation(gate) * up), where proj_up gives gate and up."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name = config, type(self).__name__
        if config.act_fn not in ACTIVATIONS:
            refuse(name, "act_fn", f"one of {', '.join(ACTIVATIONS)}", repr(config.act_fn))
        if config.ff_type != "ffn_gated":
            refuse(name, "ff_type", "'ffn_gated'", repr(config.ff_type))
        self.size = up_size(name, config)
        self.proj_up = nn.Linear(config.embedding_dim, 2 * self.size, bias=config.bias)
        self.proj_down = nn.Linear(self.size, config.embedding_dim, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        projections_(self.proj_up, self.proj_down, self.config)

    def forward(self, x: Tensor, **_: Any) -> Any:
        gate, up = self.proj_up(x).split(self.size, -1)
        return self.dropout(self.proj_down(self._gated(gate, up)))

    def _gated(self, gate: Tensor, up: Tensor) -> Any:
        name = self.config.act_fn
        if name == "gelu":
            return metalcore.geglu(gate, up)
        if name == "swish":
            return metalcore.swiglu(gate, up)
        if name == "relu^2":
            return F.relu(gate).square() * up
        return getattr(torch, name)(gate) * up


def small_(weight: Tensor, dim: int) -> None:
    nn.init.normal_(weight, std=math.sqrt(2 / (5 * dim)))


def projections_(up: nn.Linear, down: nn.Linear, config: Any) -> None:
    """Smaller on the way down the more blocks are added up."""
    small_(up.weight, config.embedding_dim)
    nn.init.normal_(down.weight, std=2 / (config._num_blocks or 1) / math.sqrt(config.embedding_dim))
    for bias in (up.bias, down.bias):
        if bias is not None:
            nn.init.zeros_(bias)


def one_token(name: str, argument: str, x: Tensor, size: int) -> None:
    if x.dim() == 3:
        check_shape(name, argument, x, (x.shape[0], 1, size))
    else:
        refuse(name, argument, f"of shape (batch, 1, {size})", f"of shape {tuple(x.shape)}")


__all__ = ["GatedFeedForward", "LinearHeadwiseExpand", "MultiHeadLayerNorm", "xLSTMCausalConv1d", "xLSTMLayerNorm"]
