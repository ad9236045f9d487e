# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from collections.abc import Callable
from metalcore import bias_gelu as bias_gelu, bias_silu as bias_silu, causal_conv1d as causal_conv1d, copy_blocks as copy_blocks, cross_entropy as cross_entropy, dequantize_int4 as dequantize_int4, embedding_bag as embedding_bag, flash_attn_func as flash_attn_func, flash_attn_varlen_func as flash_attn_varlen_func, fused_add_layer_norm as fused_add_layer_norm, fused_add_rms_norm as fused_add_rms_norm, gather as gather, gather_kv_cache as gather_kv_cache, geglu as geglu, gelu as gelu, index_select as index_select, kl_div as kl_div, layer_norm as layer_norm, log_softmax as log_softmax, logsumexp as logsumexp, matmul_int4 as matmul_int4, matmul_int8 as matmul_int8, mlstm_chunkwise as mlstm_chunkwise, mlstm_parallel as mlstm_parallel, mlstm_recurrent as mlstm_recurrent, mlstm_siging_chunkwise as mlstm_siging_chunkwise, mlstm_step as mlstm_step, paged_attention as paged_attention, paged_attention_v1 as paged_attention_v1, paged_attention_v2 as paged_attention_v2, quantize_int4 as quantize_int4, reshape_and_cache as reshape_and_cache, reshape_and_cache_flash as reshape_and_cache_flash, rms_norm as rms_norm, rope as rope, scatter_add as scatter_add, silu as silu, slstm as slstm, slstm_step as slstm_step, softcap as softcap, softmax as softmax, swap_blocks as swap_blocks, swiglu as swiglu
from metalcore.mlx import fast as fast, linalg as linalg, nn as nn, precise as precise
from metalcore.mlx.primitive import explain as explain
from metalcore.mlx.replace import active_overrides as active_overrides, overrides as overrides
from typing import Any

def scaled_dot_product_attention(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    """softmax(scale q k^T + mask) v as mx.fast.scaled_dot_product_attention, with a gradient that makes no array of
    rows x keys either."""

def on_mlx(noun: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A public function that takes mlx arrays alone, and the stream to run on; `noun` is how errors call it."""
