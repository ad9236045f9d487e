"""Attention over a paged cache with Hugging Face's arguments and layout, written into `out`."""

from __future__ import annotations

from typing import Any

import numpy as np

from metalcore.ops.base import paged
from metalcore.ops.base.attention import FAR
from metalcore.ops.base.attention_arguments import check_numbers
from metalcore.ops.base.check import check_array, refuse
from metalcore.ops.base.kv_cache import FP8, check_cache, check_scales
from metalcore.ops.base.op import Op, stage
from metalcore.ops.paged_attention import count_up, per_head
from metalcore.runtimes.runtime import Runtime

NOUN = "paged_attention_v1"
SCHEMA = (
    "(Tensor(a!) out, Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, "
    "Tensor starts, Tensor? alibi_slopes, float scale, int longest, float k_scale, float v_scale) -> ()"
)


def paged_attention_v1(
    out: Any, query: Any, key_cache: Any, value_cache: Any, num_kv_heads: int, scale: float, block_tables: Any,
    seq_lens: Any, block_size: int, max_seq_len: int, alibi_slopes: Any = None, kv_cache_dtype: str = "auto",
    k_scale: Any = 1.0, v_scale: Any = 1.0, tp_rank: int = 0, blocksparse_local_blocks: int = 0,
    blocksparse_vert_stride: int = 0, blocksparse_block_size: int = 64, blocksparse_head_sliding_step: int = 0,
) -> Any:  # fmt: skip
    """One new token of each sequence, `query` (sequences, heads, depth), over caches in Hugging Face's layout: keys
    (blocks, heads, depth / x, block_size, x), values (blocks, heads, depth, block_size). Writes `out`, of query's
    shape, and returns nothing; mlx arrays are immutable, so that for them a new one is returned.

    `kv_cache_dtype` "auto": caches have the query's dtype; "fp8" or "fp8_e4m3": they are uint8, times the scales.
    `max_seq_len` must not be below a length of `seq_lens`. Block-sparse attention is not supported.
    `metalcore.paged_attention` has more: several tokens a sequence, windows, sinks, softcap.

    >>> import numpy as np, metalcore
    >>> query, out = np.ones((1, 1, 4), np.float32), np.zeros((1, 1, 4), np.float32)
    >>> keys, values = np.ones((2, 1, 1, 8, 4), np.float32), np.ones((2, 1, 4, 8), np.float32)
    >>> table, lengths = np.array([[1]], np.int32), np.array([5], np.int32)
    >>> metalcore.paged_attention_v1(out, query, keys, values, 1, 0.5, table, lengths, 8, 5)
    >>> out
    array([[[1., 1., 1., 1.]]], dtype=float32)
    """
    sparse = (blocksparse_local_blocks, blocksparse_vert_stride, blocksparse_head_sliding_step)
    arrays = (out, query, key_cache, value_cache, block_tables, seq_lens)
    sizes = (num_kv_heads, block_size, max_seq_len)
    return OP(*prepare(NOUN, arrays, alibi_slopes, sizes, scale, (k_scale, v_scale), kv_cache_dtype, sparse))


def prepare(
    op: str,
    arrays: tuple[Any, ...],
    slopes: Any,
    sizes: tuple[int, int, int],
    scale: float,
    scales: tuple[Any, Any],
    kind: str,
    sparse: tuple[int, ...],
) -> tuple[Any, ...]:
    """The public arguments, checked, as the op takes them. `sizes`: heads of keys, of a block, the longest sequence."""
    _check(op, arrays, sizes, scale, kind, sparse)
    query = arrays[1]
    given = (count_up(query, query.shape[0] + 1), per_head(op, "alibi_slopes", slopes, query.shape[1]))
    return *arrays, *given, float(scale), int(sizes[2]), *check_scales(op, *scales)


def _check(
    op: str, arrays: tuple[Any, ...], sizes: tuple[int, int, Any], scale: float, kind: str, sparse: tuple[int, ...]
) -> None:
    """What cannot be read off the arrays."""
    heads, block_size, longest = sizes
    check_numbers(op, 0.0, scale, 0.0)
    names = ("out", "query", "key_cache", "value_cache", "block_tables", "seq_lens")
    for name, array in zip(names, arrays, strict=True):
        check_array(op, name, array)
    out, query, key_cache = arrays[:3]
    if kind != "auto" and kind not in FP8:
        refuse(op, "kv_cache_dtype", "auto, fp8 or fp8_e4m3", repr(kind))
    if any(sparse):
        refuse(op, "blocksparse_*", "0: block-sparse attention is not supported", sparse)
    if len(query.shape) != 3:
        refuse(op, "query", "of shape (sequences, heads, depth)", f"of shape {tuple(query.shape)}")
    if check_cache(op, "out", out) != check_array(op, "query", query) or tuple(out.shape) != tuple(query.shape):
        expected = f"of the shape and dtype of query, {tuple(query.shape)} {check_array(op, 'query', query)}"
        refuse(op, "out", expected, f"{tuple(out.shape)} {check_array(op, 'out', out)}")
    if len(key_cache.shape) != 5 or key_cache.shape[1] != heads or key_cache.shape[3] != block_size:
        expected = f"of shape (blocks, {heads}, depth / x, {block_size}, x)"
        refuse(op, "key_cache", expected, f"of shape {tuple(key_cache.shape)}")
    if (kind == "auto") == (check_array(op, "key_cache", key_cache) == "uint8"):
        refuse(op, "kv_cache_dtype", "fp8 for caches of uint8, auto for others", repr(kind))
    if isinstance(longest, bool) or not isinstance(longest, (int, np.integer)) or not 0 <= longest < FAR:
        refuse(op, "max_seq_len", "a whole number, the length of the longest sequence", repr(longest))


def attend(op: str, run: Runtime, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    out, query, keys, values, tables, lengths, starts, slopes, scale, longest, k_scale, v_scale = arguments
    numbers = (scale, 0.0, -1, 1, longest, k_scale, v_scale)
    inputs = (query, keys, values, tables, lengths, starts, slopes, None)
    written = None if run.keeps_arguments else out
    found = paged.attend(run, op, inputs, numbers, is_parted=True, out=written)
    return (found,) if run.keeps_arguments else ()


@stage(SCHEMA)
def forward(run: Runtime, *arguments: Any) -> tuple[Any, ...]:
    return attend(NOUN, run, arguments)


OP = Op(NOUN, "attention of one token a sequence over a paged cache, in Hugging Face's layout, into `out`", forward)
