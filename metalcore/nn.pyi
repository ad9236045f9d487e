# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from metalcore.ops.base.xlstm_configs import CausalConv1dConfig as CausalConv1dConfig, FeedForwardConfig as FeedForwardConfig, LinearHeadwiseExpandConfig as LinearHeadwiseExpandConfig, mLSTMBlockConfig as mLSTMBlockConfig, mLSTMCellConfig as mLSTMCellConfig, mLSTMLayerConfig as mLSTMLayerConfig, sLSTMBlockConfig as sLSTMBlockConfig, sLSTMCellConfig as sLSTMCellConfig, sLSTMLayerConfig as sLSTMLayerConfig, xLSTMBlockStackConfig as xLSTMBlockStackConfig
from metalcore.torch.multihead import MultiheadAttention as MultiheadAttention
from metalcore.torch.nn import BiasGELU as BiasGELU, BiasSiLU as BiasSiLU, CausalConv1d as CausalConv1d, CrossEntropyLoss as CrossEntropyLoss, EmbeddingBag as EmbeddingBag, FusedAddLayerNorm as FusedAddLayerNorm, FusedAddRMSNorm as FusedAddRMSNorm, GEGLU as GEGLU, GELU as GELU, KLDivLoss as KLDivLoss, LayerNorm as LayerNorm, LogSoftmax as LogSoftmax, RMSNorm as RMSNorm, RotaryEmbedding as RotaryEmbedding, SiLU as SiLU, Softcap as Softcap, Softmax as Softmax, SwiGLU as SwiGLU
from metalcore.torch.paged_cache import PagedCache as PagedCache
from metalcore.torch.xlstm import mLSTMBlock as mLSTMBlock, sLSTMBlock as sLSTMBlock, xLSTMBlockStack as xLSTMBlockStack
from metalcore.torch.xlstm_cells import mLSTMCell as mLSTMCell, sLSTMCell as sLSTMCell
from metalcore.torch.xlstm_layers import mLSTMLayer as mLSTMLayer, sLSTMLayer as sLSTMLayer
from metalcore.torch.xlstm_parts import GatedFeedForward as GatedFeedForward, LinearHeadwiseExpand as LinearHeadwiseExpand, MultiHeadLayerNorm as MultiHeadLayerNorm, xLSTMCausalConv1d as xLSTMCausalConv1d, xLSTMLayerNorm as xLSTMLayerNorm

__all__ = ['BiasGELU', 'BiasSiLU', 'CausalConv1d', 'CausalConv1dConfig', 'CrossEntropyLoss', 'EmbeddingBag', 'FeedForwardConfig', 'FusedAddLayerNorm', 'FusedAddRMSNorm', 'GEGLU', 'GELU', 'GatedFeedForward', 'KLDivLoss', 'LayerNorm', 'LinearHeadwiseExpand', 'LinearHeadwiseExpandConfig', 'LogSoftmax', 'MultiHeadLayerNorm', 'MultiheadAttention', 'PagedCache', 'RMSNorm', 'RotaryEmbedding', 'SiLU', 'Softcap', 'Softmax', 'SwiGLU', 'mLSTMBlock', 'mLSTMBlockConfig', 'mLSTMCell', 'mLSTMCellConfig', 'mLSTMLayer', 'mLSTMLayerConfig', 'sLSTMBlock', 'sLSTMBlockConfig', 'sLSTMCell', 'sLSTMCellConfig', 'sLSTMLayer', 'sLSTMLayerConfig', 'xLSTMBlockStack', 'xLSTMBlockStackConfig', 'xLSTMCausalConv1d', 'xLSTMLayerNorm']
