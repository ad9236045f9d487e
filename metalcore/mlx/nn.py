"""Modules of mlx.nn over the ops of metalcore.mlx: those that mlx.nn itself has, and xLSTM with the names and settings
of metalcore.nn.

Parameters are named as in the package `xlstm` but for those of sLSTMCell: `xlstm_weights` turns a state dict into what
`load_weights` takes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import metalcore.mlx as ops
from metalcore.mlx import layers
from metalcore.mlx.layers import *  # noqa: F403
from metalcore.mlx.xlstm_parts import (
    Base,
    CausalConv1d,
    GatedFeedForward,
    LinearHeadwiseExpand,
    MultiHeadLayerNorm,
    first_weights_,
    mx,
    nn,
    xLSTMLayerNorm,
)
from metalcore.ops.base import xlstm_configs
from metalcore.ops.base.check import refuse
from metalcore.ops.base.xlstm_configs import *  # noqa: F403
from metalcore.ops.base.xlstm_configs import check_slstm, checked, parts, up_size


class mLSTMCell(Base):
    """The matrix memory on q, k, v (batch, tokens, embedding_dim); the state is (c, n, m) of mlstm_chunkwise."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.size = checked(type(self).__name__, config, "embedding_dim")
        self.heads = config.num_heads
        self.depth = parts(type(self).__name__, "embedding_dim", self.size, "num_heads", self.heads)
        self.igate, self.fgate = (nn.Linear(3 * self.size, self.heads) for _ in range(2))
        for gate in (self.igate, self.fgate):
            gate.weight = mx.zeros_like(gate.weight)
        self.igate.bias = 0.1 * mx.random.normal((self.heads,))
        self.fgate.bias = mx.linspace(3.0, 6.0, self.heads)
        self.outnorm = MultiHeadLayerNorm(self.size)

    def __call__(self, q: Any, k: Any, v: Any, mlstm_state: Any = None) -> tuple[Any, Any]:
        batch, tokens, _ = q.shape
        together = mx.concatenate((q, k, v), -1)
        i, f = (gate(together).swapaxes(1, 2) for gate in (self.igate, self.fgate))
        q, k, v = (x.reshape(batch, tokens, self.heads, self.depth).swapaxes(1, 2) for x in (q, k, v))
        if tokens == 1 and mlstm_state is not None:
            h, last = ops.mlstm_step(*(x.squeeze(2) for x in (q, k, v, i, f)), *mlstm_state)
            h = h[:, :, None]
        else:
            c, n, m = (None,) * 3 if mlstm_state is None else mlstm_state
            h, last = ops.mlstm_chunkwise(q, k, v, i, f, c, n, m, return_last_states=True)
        return self.outnorm(h).swapaxes(1, 2).reshape(batch, tokens, self.size), last


class mLSTMLayer(Base):
    """x (batch, tokens, embedding_dim), projected up, through convolution and mLSTMCell, gated and projected down."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        name, size, bias = type(self).__name__, config.embedding_dim, config.bias
        inner = up_size(name, config)
        blocks = parts(name, "the inner width", inner, "qkv_proj_blocksize", config.qkv_proj_blocksize)
        self.proj_up, self.proj_down = nn.Linear(size, 2 * inner, bias=bias), nn.Linear(inner, size, bias=bias)
        first_weights_(self.proj_up, self.proj_down, config)
        self.q_proj, self.k_proj, self.v_proj = (LinearHeadwiseExpand(inner, blocks, bias, size) for _ in range(3))
        self.conv1d = CausalConv1d(xlstm_configs.CausalConv1dConfig(inner, config.conv1d_kernel_size))
        self.mlstm_cell = mLSTMCell(xlstm_configs.mLSTMCellConfig(-1, inner, config.num_heads))
        self.learnable_skip = mx.ones(inner)
        self.dropout = nn.Dropout(config.dropout)

    def __call__(self, x: Any, mlstm_state: Any = None, conv_state: Any = None) -> tuple[Any, dict[str, Any]]:
        """The result, and the states for the next tokens."""
        inner, z = mx.split(self.proj_up(x), 2, -1)
        before, conv_state = self.conv1d(inner, conv_state, "silu")
        h, mlstm_state = self.mlstm_cell(self.q_proj(before), self.k_proj(before), self.v_proj(inner), mlstm_state)
        y = self.proj_down(ops.swiglu(z, h + self.learnable_skip * before))
        return self.dropout(y), {"mlstm_state": mlstm_state, "conv_state": conv_state}


class sLSTMCell(Base):
    """Gates x (batch, tokens, 4 * hidden_size) to y (batch, heads, tokens, depth); the state is (y, c, n, m) of slstm.

    `recurrent_kernel` (4, heads, depth, depth) and `bias` (4, heads, depth) lie as metalcore.mlx.slstm takes them.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        name = type(self).__name__
        size = checked(name, config, "hidden_size")
        self.heads = config.num_heads
        self.depth = parts(name, "hidden_size", size, "num_heads", self.heads)
        check_slstm(name, config)
        for argument, only in (("input_shape", "BSGNH"), ("output_shape", "BNSH")):
            if getattr(config, argument) != only:
                refuse(name, argument, repr(only), repr(getattr(config, argument)))
        shape, bound = (4, self.heads, self.depth), 1 / math.sqrt(size)
        is_random = config.recurrent_weight_init == "standard"
        kernel = (*shape, self.depth)
        self.recurrent_kernel = mx.random.uniform(-bound, bound, kernel) if is_random else mx.zeros(kernel)
        self.bias = mx.random.uniform(-bound, bound, shape) if config.bias_init == "standard" else mx.zeros(shape)
        if config.bias_init == "small_init":
            self.bias[1] = mx.linspace(3.0, 6.0, self.depth)
        elif config.bias_init == "powerlaw_blockdependent":
            blocks, index = config._num_blocks or 1, config._block_idx or 0
            power = 0.3 + (1.3 * index / (blocks - 1) if blocks > 1 else 0.0)
            self.bias[1] = 5.0 - 12.0 * (mx.arange(self.depth) / max(1, self.depth - 1)) ** power

    def __call__(self, x: Any, slstm_state: Any = None) -> tuple[Any, Any]:
        x = x.reshape(*x.shape[:2], 4, self.heads, self.depth)
        y, last = ops.slstm(x, self.recurrent_kernel, self.bias, slstm_state, return_last_states=True)
        return y.swapaxes(1, 2), last


class sLSTMLayer(Base):
    """x (batch, tokens, embedding_dim) through convolution, gates a head, sLSTMCell and a norm a head."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.embedding_dim
        self.width = config.conv1d_kernel_size
        if self.width:
            self.conv1d = CausalConv1d(xlstm_configs.CausalConv1dConfig(size, self.width))
        self.fgate, self.igate, self.zgate, self.ogate = (
            LinearHeadwiseExpand(size, config.num_heads, False, size) for _ in range(4)
        )
        self.slstm_cell = sLSTMCell(config)
        self.group_norm = MultiHeadLayerNorm(size, weight=config.group_norm_weight)
        self.dropout = nn.Dropout(config.dropout)

    def __call__(self, x: Any, conv_state: Any = None, slstm_state: Any = None) -> tuple[Any, dict[str, Any]]:
        """The result, and the states for the next tokens."""
        before = x
        if self.width:
            before, conv_state = self.conv1d(x, conv_state, "silu")
        # What the package calls fgate is the cell's input gate.
        gates = mx.concatenate((self.fgate(before), self.igate(before), self.zgate(x), self.ogate(x)), -1)
        y, slstm_state = self.slstm_cell(gates, slstm_state)
        y = self.group_norm(self.dropout(y)).swapaxes(1, 2).reshape(x.shape)
        return y, {"conv_state": conv_state, "slstm_state": slstm_state}


class xLSTMBlock(Base):
    """x + layer(norm(x)), then the same with the feed-forward part where there is one."""

    def __init__(self, layer: Any, size: int, feedforward: Any = None) -> None:
        super().__init__()
        self.xlstm_norm, self.xlstm = xLSTMLayerNorm(size), layer
        self.ffn = None
        if feedforward is not None:
            self.ffn_norm, self.ffn = xLSTMLayerNorm(size), GatedFeedForward(feedforward)

    def __call__(self, x: Any, **state: Any) -> tuple[Any, dict[str, Any]]:
        y, last = self.xlstm(self.xlstm_norm(x), **state)
        x = x + y
        return (x if self.ffn is None else x + self.ffn(self.ffn_norm(x))), last


class xLSTMBlockStack(Base):
    """Blocks of mLSTM and sLSTM one after another, x (batch, tokens, embedding_dim), and a norm.

    A call gives the result and the states of the blocks, for the next tokens: one, or many.

    >>> import mlx.core as mx, metalcore.mlx.nn as mnn
    >>> config = mnn.xLSTMBlockStackConfig(mnn.mLSTMBlockConfig(), num_blocks=2, embedding_dim=32)
    >>> stack, x = mnn.xLSTMBlockStack(config), mx.random.normal((2, 6, 32))
    >>> start, state = stack(x[:, :5])
    >>> end, state = stack(x[:, 5:], state)
    >>> mx.allclose(mx.concatenate((start, end), 1), stack(x)[0], atol=1e-5).item()
    True
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        name, count = type(self).__name__, checked(type(self).__name__, config, "num_blocks")
        places = range(count) if config.mlstm_block is None or config.slstm_at == "all" else config.slstm_at
        for place in places:
            if not 0 <= place < count:
                refuse(name, "slstm_at", f"of numbers from 0 to {count - 1}", place)
        if len(places) and config.slstm_block is None:
            refuse(name, "slstm_block", "given: some blocks are of it", "None")
        self.blocks = [_block(config, index, index in places) for index in range(count)]
        self.post_blocks_norm = xLSTMLayerNorm(config.embedding_dim) if config.add_post_blocks_norm else None

    def __call__(self, x: Any, state: Any = None) -> tuple[Any, list[dict[str, Any]]]:
        last = []
        for block, given in zip(self.blocks, state or [{}] * len(self.blocks), strict=True):
            x, new = block(x, **given)
            last.append(new)
        return (x if self.post_blocks_norm is None else self.post_blocks_norm(x)), last


def _block(whole: Any, index: int, is_slstm: bool) -> xLSTMBlock:
    given = copy.deepcopy(whole.slstm_block if is_slstm else whole.mlstm_block)
    layer = given.slstm if is_slstm else given.mlstm
    layer.embedding_dim, layer.dropout = whole.embedding_dim, whole.dropout
    layer._num_blocks, layer._block_idx = whole.num_blocks, index
    if not is_slstm:
        layer.bias = whole.bias
        return xLSTMBlock(mLSTMLayer(layer), whole.embedding_dim)
    layer.hidden_size = whole.embedding_dim
    feed = given.feedforward
    if feed is not None:
        feed.embedding_dim, feed._num_blocks = whole.embedding_dim, whole.num_blocks
    return xLSTMBlock(sLSTMLayer(layer), whole.embedding_dim, feed)


def xlstm_weights(state: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A state dict of metalcore.nn's modules or the package's, torch tensors or NumPy arrays, for `load_weights`."""
    arrays = {name: np.asarray(x.detach().cpu().float() if hasattr(x, "detach") else x) for name, x in state.items()}
    found = []
    for name, array in arrays.items():
        if name.endswith("_recurrent_kernel_"):
            prefix = name.removesuffix("_recurrent_kernel_")
            heads, rows, columns = array.shape
            bias = arrays[f"{prefix}_bias_"]
            if rows > columns:  # vanilla: (heads, gate, to, from), (gate, heads, depth)
                array = array.reshape(heads, 4, columns, columns).transpose(1, 0, 3, 2)
                bias = bias.reshape(4, heads, columns)
            else:  # cuda: (heads, from, gate, to), (heads, gate, depth)
                array = array.reshape(heads, rows, 4, rows).transpose(2, 0, 1, 3)
                bias = bias.reshape(heads, 4, rows).swapaxes(0, 1)
            found += [(f"{prefix}recurrent_kernel", mx.array(array)), (f"{prefix}bias", mx.array(bias))]
        elif not name.endswith("._bias_") and name != "_bias_":
            found.append((name, mx.array(array)))
    return found


__all__ = [
    *layers.__all__,
    *xlstm_configs.__all__,
    "GatedFeedForward",
    "LinearHeadwiseExpand",
    "MultiHeadLayerNorm",
    "mLSTMCell",
    "mLSTMLayer",
    "sLSTMCell",
    "sLSTMLayer",
    "xLSTMBlock",
    "xLSTMBlockStack",
    "CausalConv1d",
    "xLSTMLayerNorm",
    "xlstm_weights",
]
