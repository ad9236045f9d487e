"""Blocks of xLSTM and stacks of them: modules that load the state of the package `xlstm` and give its results."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from metalcore.ops.base import xlstm_configs
from metalcore.ops.base.check import refuse
from metalcore.ops.base.xlstm_configs import *  # noqa: F403
from metalcore.ops.base.xlstm_configs import checked
from metalcore.torch import xlstm_cells, xlstm_layers, xlstm_parts
from metalcore.torch.xlstm_cells import *  # noqa: F403
from metalcore.torch.xlstm_layers import *  # noqa: F403
from metalcore.torch.xlstm_layers import mLSTMLayer, sLSTMLayer
from metalcore.torch.xlstm_parts import *  # noqa: F403
from metalcore.torch.xlstm_parts import GatedFeedForward, xLSTMLayerNorm


class _Block(nn.Module):
    """x + layer(norm(x)), then the same with the feed-forward part where there is one."""

    ffn_norm: xLSTMLayerNorm | None
    ffn: GatedFeedForward | None

    def __init__(self, config: Any, layer: mLSTMLayer | sLSTMLayer, feedforward: Any) -> None:
        super().__init__()
        self.config, size = config, layer.config.embedding_dim
        self.xlstm_norm, self.xlstm = xLSTMLayerNorm(size), layer
        self.ffn_norm = self.ffn = None
        if feedforward is not None:
            feedforward = copy.copy(feedforward)
            feedforward.embedding_dim, feedforward._num_blocks = size, layer.config._num_blocks
            self.ffn_norm, self.ffn = xLSTMLayerNorm(size), GatedFeedForward(feedforward)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for part in (self.xlstm, self.xlstm_norm, self.ffn, self.ffn_norm):
            if part is not None:
                part.reset_parameters()

    def forward(self, x: Tensor, return_last_state: bool = False, **state: Any) -> Any:
        """`state` are the states that the layer's `forward` takes, by name."""
        found = self.xlstm(self.xlstm_norm(x), return_last_state=return_last_state, **state)
        y, last = found if return_last_state else (found, None)
        y = self._feed(x + y)
        return (y, last) if return_last_state else y

    def step(self, x: Tensor, **state: Any) -> tuple[Any, dict[str, Any]]:
        """One token, and the new states, by name."""
        y, last = self.xlstm.step(self.xlstm_norm(x), **state)
        return self._feed(x + y), last

    def _feed(self, x: Tensor) -> Tensor:
        return x if self.ffn is None or self.ffn_norm is None else x + self.ffn(self.ffn_norm(x))


class mLSTMBlock(_Block):
    """A norm and mLSTMLayer beside a path that skips them. `config.mlstm` are the layer's settings."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, mLSTMLayer(_placed(config.mlstm, config)), None)


class sLSTMBlock(_Block):
    """A norm and sLSTMLayer beside a path that skips them, then a feed-forward part unless it is None."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, sLSTMLayer(_placed(config.slstm, config)), config.feedforward)


class xLSTMBlockStack(nn.Module):
    """Blocks of mLSTM and sLSTM one after another, x (batch, tokens, embedding_dim), and a norm.

    >>> import torch, metalcore.nn as mnn
    >>> config = mnn.xLSTMBlockStackConfig(
    ...     mnn.mLSTMBlockConfig(), mnn.sLSTMBlockConfig(), num_blocks=3, embedding_dim=32, slstm_at=[1]
    ... )
    >>> stack, x = mnn.xLSTMBlockStack(config), torch.randn(2, 6, 32)
    >>> start, state = stack(x[:, :5], return_last_state=True)
    >>> end, state = stack.step(x[:, 5:], state)
    >>> torch.allclose(torch.cat((start, end), 1), stack(x), atol=1e-5)
    True
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, name = config, type(self).__name__
        count, size = checked(name, config, "num_blocks"), checked(name, config, "embedding_dim")
        is_all = config.mlstm_block is None or config.slstm_at == "all"
        places = range(count) if is_all else config.slstm_at
        for place in places:
            if not 0 <= place < count:
                refuse(name, "slstm_at", f"of numbers from 0 to {count - 1}", place)
        self.blocks = nn.ModuleList(self._block(index, index in places) for index in range(count))
        self.post_blocks_norm = xLSTMLayerNorm(size) if config.add_post_blocks_norm else nn.Identity()

    def _block(self, index: int, is_slstm: bool) -> mLSTMBlock | sLSTMBlock:
        whole = self.config
        given = whole.slstm_block if is_slstm else whole.mlstm_block
        if given is None:
            refuse(type(self).__name__, "slstm_block", f"given: block {index} is one", "None")
        config = copy.deepcopy(given)
        config._num_blocks, config._block_idx = whole.num_blocks, index
        layer = config.slstm if is_slstm else config.mlstm
        layer.embedding_dim, layer.dropout = whole.embedding_dim, whole.dropout
        if is_slstm:
            layer.hidden_size = whole.embedding_dim
            return sLSTMBlock(config)
        layer.bias, layer.context_length = whole.bias, whole.context_length
        return mLSTMBlock(config)

    def reset_parameters(self) -> None:
        for block in self.blocks:
            block.reset_parameters()  # type: ignore[operator]
        if isinstance(self.post_blocks_norm, xLSTMLayerNorm):
            self.post_blocks_norm.reset_parameters()

    def forward(self, x: Tensor, state: Any = None, return_last_state: bool = False, **_: Any) -> Any:
        """`state` as `step` gives it. With `return_last_state` also the new one: a prompt at once, then steps."""
        state, last = state or {}, {}
        for index, block in enumerate(self.blocks):
            found = block(x, return_last_state=return_last_state, **state.get(f"block_{index}", {}))
            x, last[f"block_{index}"] = found if return_last_state else (found, None)
        x = self.post_blocks_norm(x)
        return (x, last) if return_last_state else x

    def step(self, x: Tensor, state: Any = None) -> tuple[Any, dict[str, dict[str, Any]]]:
        """One token, x (batch, 1, embedding_dim), and a new state: those of each block, "block_0" and so on."""
        state, last = state or {}, {}
        for index, block in enumerate(self.blocks):
            x, last[f"block_{index}"] = block.step(x, **state.get(f"block_{index}", {}))  # type: ignore[operator]
        return self.post_blocks_norm(x), last


def _placed(layer: Any, block: Any) -> Any:
    """The layer's settings with the block's place in its stack, which first weights depend on."""
    layer = copy.copy(layer)
    layer._num_blocks, layer._block_idx = block._num_blocks or 1, block._block_idx or 0
    return layer


__all__ = [
    *xlstm_cells.__all__,
    *xlstm_configs.__all__,
    *xlstm_layers.__all__,
    *xlstm_parts.__all__,
    "mLSTMBlock",
    "sLSTMBlock",
    "xLSTMBlockStack",
]
