"""Attention over a paged cache: kernels/attention_paged.metal."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from metalcore.ops.base import paged
from metalcore.ops.base.attention import FAR
from metalcore.ops.base.attention_arguments import cast, check_numbers, check_window
from metalcore.ops.base.attention_reference import reference as plain
from metalcore.ops.base.check import check_array, check_float, refuse
from metalcore.ops.base.draw import Draw, Sample, Values
from metalcore.ops.base.kv_cache import check_scale
from metalcore.ops.base.op import Op, Stage
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
        *(check_scale(NOUN, n, x) for n, x in zip(("k_scale", "v_scale"), scales, strict=True)),
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


def forward(run: Runtime, *arguments: Any) -> tuple[Any, ...]:
    return (paged.attend(run, NOUN, *arguments),)


def rows_of(cache: Any, table: Any, length: int, scale: float) -> Any:
    """The first rows of a sequence out of a cache, in plain torch."""
    import torch

    rows = cache[table[: -(-length // cache.shape[1])].long()].flatten(0, 1)[:length]
    return rows.view(torch.float8_e4m3fn).float() * scale if rows.dtype == torch.uint8 else rows


def reference(
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
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Any:
    """Gathered, then sequence by sequence."""
    import torch

    starts = range(query.shape[0] + 1) if cu_seqlens_q is None else cu_seqlens_q.tolist()
    found = []
    for s, length in enumerate(seq_lens.tolist()):
        q = query[starts[s] : starts[s + 1]].transpose(0, 1)
        scales = (k_scale or 1.0, v_scale or 1.0)
        caches = (key_cache, value_cache)
        k, v = (rows_of(c, block_tables[s], length, x).transpose(0, 1) for c, x in zip(caches, scales, strict=True))
        out, _ = plain(
            *(q, k.to(q.dtype) if k.dtype != torch.float32 else k, v),
            scale=scale,
            softcap=softcap,
            window_size=(window_size[0], 0),
            alibi_slopes=alibi_slopes,
            sinks=sinks,
        )
        found.append(out.transpose(0, 1))
    return torch.cat(found) if found else query.new_empty(0, query.shape[1], value_cache.shape[-1])


def samples(draw: Draw) -> Sample:
    return draw_paged(draw, draw.choice((8, 16, 5, 1)))


def draw_paged(draw: Draw, block: int) -> Sample:
    sequences, key_heads = draw.choice((1, 2, 3)), draw.choice((1, 2))
    each = draw.choice((1, 1, 2, 4, 12))
    depth = (64, 33, 8, 1, 128, 80)[draw.index % 6]
    width = depth if draw.chance(0.6) else draw.choice((16, 65))
    is_many = draw.chance(0.5)
    queries = [draw.choice((1, 2, 5, 33)) if is_many else 1 for _ in range(sequences)]
    lengths = [n + draw.choice((0, 1, 30, 65, 130)) for n in queries]
    most = max(-(-n // block) for n in lengths) + draw.choice((0, 2))
    blocks = most * sequences + 1
    order = draw.distinct(most * sequences, blocks, "int64")
    tables = np.asarray(order).reshape(sequences, most).astype(draw.choice(("int32", "int64")))
    kind = draw.choice(("auto", "auto", "auto", "fp8"))
    caches = [
        draw.floats((blocks, block, key_heads, d), layout="contiguous", grad=False)
        if kind == "auto"
        else Values(
            np.asarray(draw.integers((blocks, block, key_heads, d), 0, 119, "uint8").values), is_float=False, grad=False
        )
        for d in (depth, width)
    ]
    named: dict[str, Any] = {"k_scale": 0.5, "v_scale": 0.25} if kind == "fp8" else {}
    if kind == "auto":  # what no sequence uses holds anything
        used = np.zeros((blocks, block), bool)
        for row, n in zip(tables, lengths, strict=True):
            used.reshape(-1)[(row[:, None] * block + np.arange(block)).reshape(-1)[:n]] = True
        caches = [Values(np.where(used[..., None, None], c.values, np.nan), grad=False) for c in caches]
    if is_many:
        named["cu_seqlens_q"] = Values(np.cumsum([0, *queries]).astype("int32"), is_float=False, grad=False)
    heads = key_heads * each
    if draw.chance(0.3):
        named["window_size"] = (draw.choice((0, 7, 40)), -1)
    if draw.chance(0.2):
        named["softcap"] = 20.0
    if draw.chance(0.25):
        named["alibi_slopes"] = draw.floats((heads,), 0.01, 0.5, layout="contiguous", grad=False)
    if draw.chance(0.25):
        named["sinks"] = draw.floats((heads,), -2.0, 2.0, layout="contiguous", grad=False)
    query = draw.floats((sum(queries), heads, depth), grad=False)
    given = (tables, np.asarray(lengths, "int32"))
    indices = (Values(np.asarray(x), is_float=False, grad=False) for x in given)
    return Sample((query, *caches, *indices), named)


OP = Op(
    noun=NOUN,
    summary="attention of new tokens over a paged cache, in the query's dtype or fp8; windows, ALiBi, sinks, softcap",
    forward=Stage(
        "(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, "
        "Tensor cu_seqlens_q, Tensor? alibi_slopes, Tensor? sinks, float scale, float softcap, int left, "
        "int most_queries, int longest, float k_scale, float v_scale) -> (Tensor out)",
        forward,
    ),
    reference=reference,
    samples=samples,
)
