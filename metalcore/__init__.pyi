# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from collections.abc import Sequence
from metalcore import errors as errors, linalg as linalg, mlx as mlx, nn as nn, optim as optim, precise as precise
from metalcore.dropins.compile_shader import compile_shader as compile_shader
from metalcore.dropins.emulate import emulate as emulate
from metalcore.dropins.metal_kernel import metal_kernel as metal_kernel
from metalcore.engine.checks.report import Finding as Finding, Report as Report
from metalcore.engine.function import Function as Function
from metalcore.engine.isolate.block import isolate as isolate
from metalcore.engine.isolate.memory import shared_array as shared_array
from metalcore.engine.library import Library as Library
from metalcore.engine.modes import coverage as coverage, mode as mode
from metalcore.engine.runtime.argument_buffers import ArgumentBuffer as ArgumentBuffer, argument_buffer as argument_buffer
from metalcore.engine.runtime.said import LogLine as LogLine, captured_log as captured_log
from metalcore.engine.runtime.threads import get_num_threads as get_num_threads, set_num_threads as set_num_threads
from metalcore.launch.device import target as target
from metalcore.ops.linalg.cholesky import cholesky as cholesky
from metalcore.ops.linalg.cholesky_solve import cholesky_solve as cholesky_solve
from metalcore.ops.linalg.eigh import eigh as eigh
from metalcore.ops.linalg.least_squares import lstsq as lstsq, pinv as pinv
from metalcore.ops.linalg.qr import qr as qr
from metalcore.ops.linalg.solve import solve as solve
from metalcore.ops.linalg.svd import svd as svd
from metalcore.ops.linalg.triangular import trsm as trsm
from metalcore.torch.explain import explain as explain
from metalcore.torch.overrides import disable_pytorch_overrides as disable_pytorch_overrides, enable_pytorch_overrides as enable_pytorch_overrides, overrides as overrides
from metalcore.torch.patch import patch_model as patch_model, unpatch_model as unpatch_model
from typing import Any

__version__: str
__all__: list[str]

def bias_gelu(x: Any, bias: Any, approximate: str = 'none') -> Any:
    """gelu(`x` + `bias`), the bias over the last dimension; `approximate` is that of gelu."""

def bias_silu(x: Any, bias: Any) -> Any:
    """silu(`x` + `bias`), the bias over the last dimension."""

def causal_conv1d(x: Any, weight: Any, bias: Any = None, state: Any = None, activation: str | None = None) -> Any:
    """Each channel of `x` (batch, channels, length) convolved with its row of `weight` (channels, width)."""

def copy_blocks(key_caches: Any, value_caches: Any, block_mapping: Any) -> Any:
    """Copy blocks inside each cache, bit for bit: `cache[to] = cache[from]` for each pair (from, to) of
    `block_mapping`, which is (pairs, 2) and holds int64 or int32."""

def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean', label_smoothing: float = 0.0, *, z_loss: float = 0.0, softcap: float | None = None, float32_loss: bool = False) -> Any:
    """-log softmax(input) at the target, as torch.nn.functional.cross_entropy: logits (N, C), (N, C, d1, ...) or (C)."""

def dequantize_int4(packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    """The matrix (q - zeros) * scales, in the dtype of `scales`; the parts are those of metalcore.quantize_int4."""

def embedding_bag(input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
    """The sum, mean or maximum of the rows `weight[i]` over each bag of indices, as torch.nn.functional.embedding_bag."""

def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: tuple[int, int] = ..., softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False) -> Any:
    """Attention as FlashAttention's function of this name: q (batch, rows, heads, depth), k and v likewise, with heads
    that divide those of q."""

def flash_attn_varlen_func(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: tuple[int, int] = ..., softcap: float = 0.0, alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, block_table: Any = None) -> Any:
    """Attention of sequences of different lengths, as FlashAttention's function of this name: q (tokens, heads, depth),
    k and v likewise, with heads that divide those of q. Sequence s has the rows cu_seqlens[s] to cu_seqlens[s + 1]."""

def fused_add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = 1e-05) -> tuple[Any, Any]:
    """(y, new_residual): new_residual is x + residual in their dtype, y its layer_norm over the last dimension."""

def fused_add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-06) -> tuple[Any, Any]:
    """(y, new_residual): new_residual is x + residual in their dtype, y its rms_norm over the last dimension."""

def gather(input: Any, dim: int, index: Any) -> Any:
    """The element of `input` along `dim` that each element of `index` names, as torch.gather: the shape is the index's."""

def gather_kv_cache(key_cache: Any, value_cache: Any, block_tables: Any, seq_lens: Any, *, total: int | None = None, dtype: Any = None, k_scale: float = 1.0, v_scale: float = 1.0) -> Any:
    """The keys and values of sequences, all tokens of the first one, then those of the next: two arrays
    (total, heads, head_dim), from caches that are (blocks, block_size, heads, head_dim)."""

def geglu(gate: Any, up: Any, approximate: str = 'none') -> Any:
    """gelu(`gate`) times `up`; `approximate` is that of gelu."""

def gelu(input: Any, approximate: str = 'none') -> Any:
    """`input` times the share of the normal distribution below it, as torch.nn.functional.gelu."""

def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of `input` along `dim` that `index` names, a vector or a single number, as torch.index_select."""

def kl_div(input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', log_target: bool = False) -> Any:
    """target * (log target - input), summed or averaged, as torch.nn.functional.kl_div: `input` holds logarithms."""

def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-05) -> Any:
    """`input` with mean 0 and variance 1 over the dimensions of `normalized_shape`, times `weight` plus `bias`."""

def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, mask: Any = None, causal: bool = False) -> Any:
    """The logarithm of softmax over one dimension, computed without taking the logarithm of a small number."""

def logsumexp(input: Any, dim: int | Sequence[int], keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over one or several dimensions, without overflow."""

def matmul_int4(x: Any, packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    """x @ w.T with w = (q - zeros) * scales, the parts of metalcore.quantize_int4; sums are in float32."""

def matmul_int8(x: Any, weight_int8: Any, scales: Any) -> Any:
    """x @ w.T with w = weight_int8 * scales; sums are in float32."""

def mlstm_chunkwise(q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None, return_last_states: bool = False, eps: float = 1e-06, chunk_size: int = 64, autocast_kernel_dtype: Any = None) -> Any:
    """The matrix memory of xLSTM over a sequence, in time and memory that grow with its length."""

def mlstm_parallel(q: Any, k: Any, v: Any, i: Any, f: Any, *, eps: float = 1e-06) -> Any:
    """What mlstm_chunkwise computes without states, as attention: each row over all rows before it."""

def mlstm_recurrent(q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None, return_last_states: bool = False, eps: float = 1e-06) -> Any:
    """What mlstm_chunkwise computes, row by row as the formula says it: for few rows, and to compare with."""

def mlstm_siging_chunkwise(q: Any, k: Any, v: Any, i: Any, f: Any, c_initial: Any = None, n_initial: Any = None, m_initial: Any = None, return_last_states: bool = False, eps: float = 1e-06, chunk_size: int = 64, autocast_kernel_dtype: Any = None) -> Any:
    """As mlstm_chunkwise, with F = sigmoid(f) and I = sigmoid(i): no stabiliser, m is 0."""

def mlstm_step(q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float = 1e-06) -> Any:
    """One row of mlstm_recurrent: h (batch, heads, width) and the new states (c, n, m)."""

def paged_attention(query: Any, key_cache: Any, value_cache: Any, block_tables: Any, seq_lens: Any, *, cu_seqlens_q: Any = None, scale: float | None = None, window_size: tuple[int, int] = ..., softcap: float = 0.0, alibi_slopes: Any = None, sinks: Any = None, k_scale: Any = None, v_scale: Any = None) -> Any:
    """Attention of new tokens, `query` (tokens, heads, depth), over caches (blocks, block_size, heads, depth)."""

def paged_attention_v1(out: Any, query: Any, key_cache: Any, value_cache: Any, num_kv_heads: int, scale: float, block_tables: Any, seq_lens: Any, block_size: int, max_seq_len: int, alibi_slopes: Any = None, kv_cache_dtype: str = 'auto', k_scale: Any = 1.0, v_scale: Any = 1.0, tp_rank: int = 0, blocksparse_local_blocks: int = 0, blocksparse_vert_stride: int = 0, blocksparse_block_size: int = 64, blocksparse_head_sliding_step: int = 0) -> Any:
    """One new token of each sequence, `query` (sequences, heads, depth), over caches in Hugging Face's layout: keys
    (blocks, heads, depth / x, block_size, x), values (blocks, heads, depth, block_size). Writes `out`, of query's
    shape, and returns nothing; mlx arrays are immutable, so that for them a new one is returned."""

def paged_attention_v2(out: Any, exp_sums: Any, max_logits: Any, tmp_out: Any, query: Any, key_cache: Any, value_cache: Any, num_kv_heads: int, scale: float, block_tables: Any, seq_lens: Any, block_size: int, max_seq_len: int, alibi_slopes: Any = None, kv_cache_dtype: str = 'auto', k_scale: Any = 1.0, v_scale: Any = 1.0, tp_rank: int = 0, blocksparse_local_blocks: int = 0, blocksparse_vert_stride: int = 0, blocksparse_block_size: int = 64, blocksparse_head_sliding_step: int = 0) -> Any:
    """As `metalcore.paged_attention_v1`. Keys are split by the launch policy in both, with sums in float32 that the op
    allocates: `exp_sums`, `max_logits` and `tmp_out`, Hugging Face's room for them, are neither read nor written and
    may be None."""

def quantize_int4(weight: Any, group_size: int = 128, symmetric: bool = False) -> tuple[Any, Any, Any]:
    """A matrix (out, in) as 4-bit numbers: (packed, scales, zeros), with `weight` close to (q - zeros) * scales."""

def reshape_and_cache(key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, kv_cache_dtype: str = 'auto', k_scale: float = 1.0, v_scale: float = 1.0) -> Any:
    """Write the key and value of each token, (tokens, heads, head_dim), into its slot of caches in the layout of
    Hugging Face: `key_cache` (blocks, heads, head_dim / x, block_size, x), `value_cache` (blocks, heads, head_dim,
    block_size). A slot is block * block_size + offset."""

def reshape_and_cache_flash(key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, kv_cache_dtype: str = 'auto', k_scale: float = 1.0, v_scale: float = 1.0) -> Any:
    """Write the key and value of each token, (tokens, heads, head_dim), into its slot of caches that are
    (blocks, block_size, heads, head_dim). A slot is block * block_size + offset."""

def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """`input` over the root of its mean square, over the dimensions of `normalized_shape`, times `weight`."""

def rope(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any = None, interleaved: bool = False, rotary_dim: int | None = None) -> tuple[Any, Any]:
    """q and k, (batch, heads, tokens, dim), turned by the angles of their positions; heads may differ in number."""

def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False, softcap: float = 0.0, window_size: tuple[int, int] = ..., alibi_slopes: Any = None, sinks: Any = None, return_lse: bool = False) -> Any:
    """softmax(scale query key^T + mask) value for (..., heads, rows, depth), as torch's function of this name."""

def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """`input` with each element of `src` added at the place along `dim` that `index` names, as torch.scatter_add."""

def silu(input: Any, inplace: bool = False) -> Any:
    """`input` / (1 + e^-`input`), as torch.nn.functional.silu. With `inplace` the result is written into `input`."""

def slstm(x: Any, R: Any, b: Any, states: Any = None, return_last_states: bool = False) -> Any:
    """The recurrent cell of xLSTM with exponential gates, over sequences."""

def slstm_step(x: Any, R: Any, b: Any, states: Any) -> Any:
    """One step of `slstm`: `x` (batch, 4, heads, depth) and `states` give y (batch, heads, depth), (y, c, n, m)."""

def softcap(x: Any, cap: float) -> Any:
    """`cap` tanh(`x` / `cap`): about x where it is small, never beyond -cap and cap."""

def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, mask: Any = None, causal: bool = False) -> Any:
    """exp(input), scaled so that it adds up to one over a dimension."""

def swap_blocks(src: Any, dst: Any, block_mapping: Any) -> Any:
    """Copy blocks of the cache `src` into the cache `dst`, bit for bit: `dst[to] = src[from]` for each pair (from, to)
    of `block_mapping`, which is (pairs, 2) and holds int64 or int32."""

def swiglu(gate: Any, up: Any) -> Any:
    """silu(`gate`) times `up`, without the product's first factor in memory."""
