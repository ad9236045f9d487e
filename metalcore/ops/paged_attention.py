"""Attention over a paged cache: kernels/attention_paged.metal."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from metalcore.ops.base import paged
from metalcore.ops.base.attention import FAR
from metalcore.ops.base.attention_arguments import cast, check_numbers, check_window
from metalcore.ops.base.check import check_array, check_float, refuse
from metalcore.ops.base.kv_cache import check_scales
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime

NOUN = "paged_attention"


def paged_attention(
    query: Any,
    key_cache: Any,
    value_cache: Any,
    block_tables: Any,
    seq_lens: Any,
    *,
    cu_seqlens_q: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    sinks: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
) -> Any:
    """Attention of new tokens, `query` (tokens, heads, depth), over caches (blocks, block_size, heads, depth).

    Row s of `block_tables` lists the blocks of sequence s, and `seq_lens` how many tokens it has, the new ones
    included; what stands behind them in the cache is never looked at. Each sequence has one new token, or those from
    cu_seqlens_q[s] to cu_seqlens_q[s + 1]. They are the last of the sequence, and a token sees those up to itself, and
    of these `window_size[0]` at most before it (-1: all); one that sees nothing, of a sequence with fewer tokens than
    queries, gets 0. Caches have the query's dtype, or are uint8 that holds fp8
    (e4m3) times `k_scale` and `v_scale`. There is no gradient.

    A block or a length out of range raises IndexRangeError; on a GPU the rows of that sequence are NaN
    (METALCORE_CHECK_GPU=1 makes it an error there).

    >>> import numpy as np, metalcore
    >>> cache = np.ones((3, 2, 1, 4), np.float32)
    >>> query = np.ones((1, 1, 4), np.float32)
    >>> metalcore.paged_attention(query, cache, cache, np.array([[2, 0]]), np.array([3]))
    array([[[1., 1., 1., 1.]]], dtype=float32)
    """
    scales = (1.0 if k_scale is None else k_scale, 1.0 if v_scale is None else v_scale)
    arrays = (query, key_cache, value_cache, block_tables, seq_lens, cu_seqlens_q, alibi_slopes, sinks)
    return attend(arrays, scale, softcap, window_size, scales)


def attend(
    arrays: tuple[Any, ...],
    scale: float | None,
    softcap: float,
    window_size: Any,
    scales: tuple[Any, Any] = (1.0, 1.0),
    bounds: tuple[int, int] | None = None,
) -> Any:
    """`bounds`: no sequence has more queries and more tokens than these."""
    query, key_cache, value_cache, block_tables, seq_lens, cu_seqlens_q, alibi_slopes, sinks = arrays
    check_numbers(NOUN, 0.0, scale, softcap)
    left, _ = check_window(NOUN, window_size)
    for name, array in (("query", query), ("key_cache", key_cache), ("value_cache", value_cache)):
        check_array(NOUN, name, array)
    for name, array in (("block_tables", block_tables), ("seq_lens", seq_lens)):
        check_array(NOUN, name, array)
    if len(query.shape) != 3:
        refuse(NOUN, "query", "of shape (tokens, heads, depth)", f"of shape {tuple(query.shape)}")
    tokens, heads, depth = query.shape
    most, longest = bounds or (tokens, FAR)
    if cu_seqlens_q is None:
        sequences = seq_lens.shape[0] if len(seq_lens.shape) else 0
        if tokens != sequences:
            refuse(NOUN, "query", f"of one token for each of {sequences} sequences, or with cu_seqlens_q", f"{tokens}")
        cu_seqlens_q, most = count_up(query, tokens + 1), 1
    else:
        check_array(NOUN, "cu_seqlens_q", cu_seqlens_q)
    slopes, sinks = (per_head(NOUN, n, x, heads) for n, x in (("alibi_slopes", alibi_slopes), ("sinks", sinks)))
    return OP(
        *(query, key_cache, value_cache, block_tables, seq_lens, cu_seqlens_q, slopes, sinks),
        1.0 / math.sqrt(max(1, depth)) if scale is None else float(scale),
        *(float(softcap), left, most, longest),
        *check_scales(NOUN, *scales),
    )


def count_up(like: Any, count: int) -> Any:
    """0, 1, 2, ... in int32, as the framework of an array has it."""
    if isinstance(like, np.ndarray):
        return np.arange(count, dtype=np.int32)
    if hasattr(like, "requires_grad"):
        torch = sys.modules["torch"]
        return torch.arange(count, dtype=torch.int32, device=like.device)
    mx = sys.modules["mlx.core"]
    return mx.arange(count, dtype=mx.int32)


def per_head(op: str, name: str, array: Any, heads: int) -> Any:
    if array is None:
        return None
    check_float(op, name, array)
    if tuple(array.shape) != (heads,):
        refuse(op, name, f"of shape ({heads},), one for each head", f"of shape {tuple(array.shape)}")
    return cast(array, "float32")


@stage(
    "(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, "
    "Tensor cu_seqlens_q, Tensor? alibi_slopes, Tensor? sinks, float scale, float softcap, int left, "
    "int most_queries, int longest, float k_scale, float v_scale) -> (Tensor out)"
)
def forward(run: Runtime, *arguments: Any) -> tuple[Any, ...]:
    return (paged.attend(run, NOUN, arguments[:8], arguments[8:]),)


OP = Op(
    NOUN,
    "attention of new tokens over a paged cache, in the query's dtype or fp8; windows, ALiBi, sinks, softcap",
    forward,
)
