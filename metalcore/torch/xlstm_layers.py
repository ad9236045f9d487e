"""The layers of xLSTM around its cells: projections, convolution, output gates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import metalcore
from metalcore.ops.base.check import refuse
from metalcore.ops.base.xlstm_configs import (
    CausalConv1dConfig,
    LinearHeadwiseExpandConfig,
    mLSTMCellConfig,
    parts,
    up_size,
)
from metalcore.torch.xlstm_cells import mLSTMCell, sLSTMCell
from metalcore.torch.xlstm_parts import (
    LinearHeadwiseExpand,
    MultiHeadLayerNorm,
    one_token,
    projections_,
    small_,
    xLSTMCausalConv1d,
)


class mLSTMLayer(nn.Module):
    """x (batch, tokens, embedding_dim), projected up, through convolution and mLSTMCell, gated and projected down.

    >>> import torch, metalcore.nn as mnn
    >>> layer = mnn.mLSTMLayer(mnn.mLSTMLayerConfig(embedding_dim=32))
    >>> x = torch.randn(2, 5, 32)
    >>> y, state = layer.step(x[:, :1])
    >>> torch.allclose(y, layer(x)[:, :1], atol=1e-5), sorted(state)
    (True, ['conv_state', 'mlstm_state'])
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name = config, type(self).__name__
        size, self.inner = config.embedding_dim, up_size(name, config)
        parts(name, "the inner width", self.inner, "num_heads", config.num_heads)
        block = config.qkv_proj_blocksize
        blocks = parts(name, "the inner width", self.inner, "qkv_proj_blocksize", block)
        self.proj_up = nn.Linear(size, 2 * self.inner, bias=config.bias)
        small = LinearHeadwiseExpandConfig(self.inner, blocks, bias=config.bias)
        self.q_proj, self.k_proj, self.v_proj = (LinearHeadwiseExpand(small) for _ in range(3))
        self.conv1d = xLSTMCausalConv1d(CausalConv1dConfig(self.inner, config.conv1d_kernel_size))
        self.mlstm_cell = mLSTMCell(mLSTMCellConfig(config.context_length, self.inner, config.num_heads))
        self.learnable_skip = nn.Parameter(torch.empty(self.inner))
        self.proj_down = nn.Linear(self.inner, size, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        projections_(self.proj_up, self.proj_down, self.config)
        nn.init.ones_(self.learnable_skip)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            projection.reset_parameters(self.config.embedding_dim)
        self.mlstm_cell.reset_parameters()

    def forward(
        self, x: Tensor, mlstm_state: Any = None, conv_state: Any = None, return_last_state: bool = False, **_: Any
    ) -> Any:
        """With `return_last_state` also the states, for `step` or the next call."""
        _tokens(type(self).__name__, x, self.config.embedding_dim)
        inner, z = self.proj_up(x).chunk(2, -1)
        before, conv_state = _convolve(self.conv1d, inner, conv_state, return_last_state)
        h = self.mlstm_cell(*self._qkv(before, inner), mlstm_state, return_last_state)
        h, mlstm_state = h if return_last_state else (h, None)
        y = self._out(h, before, z)
        return (y, {"mlstm_state": mlstm_state, "conv_state": conv_state}) if return_last_state else y

    def step(self, x: Tensor, mlstm_state: Any = None, conv_state: Any = None) -> tuple[Any, dict[str, Any]]:
        """One token, x (batch, 1, embedding_dim), and the new states."""
        one_token(f"{type(self).__name__}.step", "x", x, self.config.embedding_dim)
        inner, z = self.proj_up(x).chunk(2, -1)
        before, conv_state = self.conv1d.step(inner, conv_state, "silu")
        h, mlstm_state = self.mlstm_cell.step(*self._qkv(before, inner), mlstm_state)
        return self._out(h, before, z), {"mlstm_state": mlstm_state, "conv_state": conv_state}

    def _qkv(self, before: Tensor, inner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(before), self.k_proj(before), self.v_proj(inner)

    def _out(self, h: Tensor, before: Tensor, z: Tensor) -> Any:
        return self.dropout(self.proj_down(metalcore.swiglu(z, torch.addcmul(h, self.learnable_skip, before))))


class sLSTMLayer(nn.Module):
    """x (batch, tokens, embedding_dim) through convolution, gates a head, sLSTMCell and a norm a head.

    >>> import torch, metalcore.nn as mnn
    >>> layer = mnn.sLSTMLayer(mnn.sLSTMLayerConfig(embedding_dim=32))
    >>> x = torch.randn(2, 5, 32)
    >>> y, state = layer.step(x[:, :1])
    >>> torch.allclose(y, layer(x)[:, :1], atol=1e-5), state["slstm_state"].shape
    (True, torch.Size([4, 2, 32]))
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name, size = config, type(self).__name__, config.embedding_dim
        for argument, only in (("input_shape", "BSGNH"), ("output_shape", "BNSH")):
            if getattr(config, argument) != only:
                refuse(name, argument, repr(only), repr(getattr(config, argument)))
        if config.conv1d_kernel_size:
            self.conv1d = xLSTMCausalConv1d(CausalConv1dConfig(size, config.conv1d_kernel_size))
        gate = LinearHeadwiseExpandConfig(size, config.num_heads, bias=False)
        self.fgate, self.igate, self.zgate, self.ogate = (LinearHeadwiseExpand(gate) for _ in range(4))
        if config.hidden_size != size:
            refuse(name, "hidden_size", f"embedding_dim {size}", config.hidden_size)
        self.slstm_cell = sLSTMCell(config)
        self.group_norm = MultiHeadLayerNorm(size, weight=config.group_norm_weight)
        self.dropout = nn.Dropout(config.dropout)

    def reset_parameters(self) -> None:
        self.slstm_cell.reset_parameters()
        self.group_norm.reset_parameters()
        for gate in (self.igate, self.fgate, self.zgate, self.ogate):
            small_(gate.weight, self.config.embedding_dim)

    def forward(
        self, x: Tensor, conv_state: Any = None, slstm_state: Any = None, return_last_state: bool = False, **_: Any
    ) -> Any:
        """With `return_last_state` also the states, for `step` or the next call."""
        _tokens(type(self).__name__, x, self.config.embedding_dim)
        before = x
        if self.config.conv1d_kernel_size:
            before, conv_state = _convolve(self.conv1d, x, conv_state, return_last_state)
        y, slstm_state = self._cell(x, before, slstm_state)
        return (y, {"conv_state": conv_state, "slstm_state": slstm_state}) if return_last_state else y

    def step(self, x: Tensor, conv_state: Any = None, slstm_state: Any = None) -> tuple[Any, dict[str, Any]]:
        """One token, x (batch, 1, embedding_dim), and the new states."""
        one_token(f"{type(self).__name__}.step", "x", x, self.config.embedding_dim)
        before = x
        if self.config.conv1d_kernel_size:
            before, conv_state = self.conv1d.step(x, conv_state, "silu")
        y, slstm_state = self._cell(x, before, slstm_state)
        return y, {"conv_state": conv_state, "slstm_state": slstm_state}

    def _cell(self, x: Tensor, before: Tensor, state: Any) -> tuple[Any, Any]:
        # The package's names are crossed: what it calls fgate is the cell's input gate. Its weights are trained so.
        gates = torch.cat((self.fgate(before), self.igate(before), self.zgate(x), self.ogate(x)), -1)
        y, state = self.slstm_cell(gates, state)
        return self.group_norm(self.dropout(y)).transpose(1, 2).flatten(2), state


def _convolve(conv: xLSTMCausalConv1d, x: Tensor, state: Any, wants_state: bool) -> tuple[Any, Any]:
    found = conv(x, state, wants_state, "silu")
    return found if wants_state else (found, None)


def _tokens(name: str, x: Tensor, size: int) -> None:
    if x.dim() != 3 or x.shape[-1] != size:
        refuse(name, "x", f"of shape (batch, tokens, {size})", f"of shape {tuple(x.shape)}")


__all__ = ["mLSTMLayer", "sLSTMLayer"]
