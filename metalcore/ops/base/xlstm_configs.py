"""Settings of the xLSTM modules, under the names that the package `xlstm` gives them; its own objects do as well."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from metalcore.ops.base.check import refuse


@dataclass
class CausalConv1dConfig:
    feature_dim: int = -1
    kernel_size: int = 4
    causal_conv_bias: bool = True
    channel_mixing: bool = False
    conv1d_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class LinearHeadwiseExpandConfig:
    in_features: int = 0
    num_heads: int = -1
    expand_factor_up: float = 1
    _out_features: int = -1
    bias: bool = True
    trainable_weight: bool = True
    trainable_bias: bool = True


@dataclass
class FeedForwardConfig:
    proj_factor: float = 1.3
    round_proj_up_dim_up: bool = True
    round_proj_up_to_multiple_of: int = 64
    act_fn: str = "gelu"
    embedding_dim: int = -1
    dropout: float = 0.0
    bias: bool = False
    ff_type: Literal["ffn_gated"] = "ffn_gated"
    _num_blocks: int = 1


@dataclass
class mLSTMCellConfig:
    context_length: int = -1
    embedding_dim: int = -1
    num_heads: int = -1


@dataclass
class mLSTMLayerConfig:
    proj_factor: float = 2.0
    round_proj_up_dim_up: bool = True
    round_proj_up_to_multiple_of: int = 64
    conv1d_kernel_size: int = 4
    qkv_proj_blocksize: int = 4
    num_heads: int = 4
    embedding_dim: int = -1
    bias: bool = False
    dropout: float = 0.0
    context_length: int = -1
    _num_blocks: int = 1


@dataclass
class sLSTMCellConfig:
    """`backend` says how the weights lie in the state: for the package's "cuda" or its "vanilla". Nothing else."""

    hidden_size: int = -1
    num_heads: int = 4
    backend: Literal["vanilla", "cuda"] = "cuda"
    function: str = "slstm"
    bias_init: Literal["powerlaw_blockdependent", "small_init", "standard", "zeros"] = "powerlaw_blockdependent"
    recurrent_weight_init: Literal["zeros", "standard"] = "zeros"
    gradient_recurrent_cut: bool = False
    gradient_recurrent_clipval: float | None = None
    forward_clipval: float | None = None
    input_shape: Literal["BSGNH", "SBGNH"] = "BSGNH"
    output_shape: Literal["BNSH", "SBH", "BSH", "SBNH"] = "BNSH"
    _block_idx: int = 0
    _num_blocks: int = 1


@dataclass
class sLSTMLayerConfig(sLSTMCellConfig):
    embedding_dim: int = -1
    conv1d_kernel_size: int = 4
    group_norm_weight: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        self.hidden_size = self.embedding_dim


@dataclass
class mLSTMBlockConfig:
    mlstm: mLSTMLayerConfig = field(default_factory=mLSTMLayerConfig)
    _num_blocks: int = 1
    _block_idx: int = 0


@dataclass
class sLSTMBlockConfig:
    slstm: sLSTMLayerConfig = field(default_factory=sLSTMLayerConfig)
    feedforward: FeedForwardConfig | None = field(default_factory=FeedForwardConfig)
    _num_blocks: int = 1
    _block_idx: int = 0


@dataclass
class xLSTMBlockStackConfig:
    """`slstm_at`: the places of sLSTM blocks, counted from 0, or "all"; at the others are mLSTM blocks.

    embedding_dim and dropout go to both kinds of block, bias and context_length to mLSTM.
    """

    mlstm_block: mLSTMBlockConfig | None = None
    slstm_block: sLSTMBlockConfig | None = None
    context_length: int = -1
    num_blocks: int = 1
    embedding_dim: int = 128
    add_post_blocks_norm: bool = True
    bias: bool = False
    dropout: float = 0.0
    slstm_at: list[int] | Literal["all"] = field(default_factory=list)


def checked(module: str, config: Any, argument: str) -> int:
    """A size that a config must say: those that the package leaves for later are -1 or None."""
    size = getattr(config, argument)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        refuse(module, argument, "a number above 0", repr(size))
    return size


def parts(module: str, argument: str, size: int, count_name: str, count: Any) -> int:
    """The size of each of `count` equal parts."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        refuse(module, count_name, "a number above 0", repr(count))
    if size % count:
        refuse(module, count_name, f"a divisor of {argument} {size}", count)
    return size // count


def check_slstm(module: str, config: Any) -> None:
    """What an sLSTM cell may be asked for; the rest of what the package has is refused, not left out silently."""
    for argument, only in (
        ("function", ("slstm",)),
        ("backend", ("vanilla", "cuda")),
        ("gradient_recurrent_cut", (False,)),
        ("gradient_recurrent_clipval", (None,)),
        ("forward_clipval", (None,)),
        ("input_shape", ("BSGNH", "SBGNH")),
        ("output_shape", ("BNSH", "SBH", "BSH", "SBNH")),
        ("recurrent_weight_init", ("zeros", "standard")),
        ("bias_init", ("powerlaw_blockdependent", "small_init", "standard", "zeros")),
    ):
        if getattr(config, argument) not in only:
            refuse(module, argument, " or ".join(map(repr, only)), repr(getattr(config, argument)))


def up_size(module: str, config: Any) -> int:
    """The width inside: embedding_dim times proj_factor, rounded to a multiple."""
    step: int = checked(module, config, "round_proj_up_to_multiple_of")
    whole = config.proj_factor * checked(module, config, "embedding_dim") / step
    size: int = step * (math.ceil(whole) if config.round_proj_up_dim_up else math.floor(whole))
    if size < 1:
        refuse(module, "proj_factor", "so large that some width is left after rounding", config.proj_factor)
    return size


__all__ = [
    "CausalConv1dConfig",
    "FeedForwardConfig",
    "LinearHeadwiseExpandConfig",
    "mLSTMBlockConfig",
    "mLSTMCellConfig",
    "mLSTMLayerConfig",
    "sLSTMBlockConfig",
    "sLSTMCellConfig",
    "sLSTMLayerConfig",
    "xLSTMBlockStackConfig",
]
