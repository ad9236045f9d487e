"""Attention of sequences one after the other, with FlashAttention's arguments: kernels/attention_varlen.metal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metalcore.ops.base import varlen
from metalcore.ops.base.attention import DEEPEST, FAR
from metalcore.ops.base.attention_arguments import cast, check_numbers, check_window, draw_seed, wants_gradient
from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.index import check_index
from metalcore.ops.base.kv_cache import check_device
from metalcore.ops.base.op import Op

NOUN = "flash_attn_varlen_func"


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None,
    deterministic: bool = False, return_attn_probs: bool = False, block_table: Any = None,
) -> Any:  # fmt: skip
    """Attention of sequences of different lengths, as FlashAttention's function of this name: q (tokens, heads, depth),
    k and v likewise, with heads that divide those of q. Sequence s has the rows cu_seqlens[s] to cu_seqlens[s + 1].

    `causal` and `window_size` are aligned at the last query and key of each sequence. With `block_table` (sequences,
    most blocks), k and v are paged caches (blocks, block_size, heads, depth), the lengths are those of cu_seqlens_k,
    and there is no gradient. `return_attn_probs` gives (out, softmax_lse (heads, tokens), None). Starts that do not
    ascend, or sequences longer than max_seqlen, raise IndexRangeError; on a GPU rows of such sequences are not written.

    >>> import numpy as np, metalcore
    >>> x, starts = np.ones((3, 1, 4), np.float32), np.array([0, 1, 3], np.int32)
    >>> metalcore.flash_attn_varlen_func(x, x, x, starts, starts, 2, 2, causal=True).shape
    (3, 1, 4)
    """
    check_numbers(NOUN, dropout_p, softmax_scale, softcap)
    left, right = check_window(NOUN, window_size)
    right = 0 if causal else right
    _check_starts(q, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    if block_table is not None:
        _refuse_with_table(dropout_p, causal, right, return_attn_probs, max_seqlen_q)
        from metalcore.ops.paged_attention import attend

        arrays = (q, k, v, block_table, cu_seqlens_k[1:] - cu_seqlens_k[:-1], cu_seqlens_q, alibi_slopes, None)
        bounds = (int(max_seqlen_q), int(max_seqlen_k))
        return attend(arrays, softmax_scale, softcap, (left, -1), bounds=bounds)
    slopes = _check_arrays(q, k, v, alibi_slopes, cu_seqlens_q, cu_seqlens_k)
    scale = 1.0 / math.sqrt(q.shape[2]) if softmax_scale is None else float(softmax_scale)
    out, lse = OP(
        *(q, k, v, cu_seqlens_q, cu_seqlens_k, slopes, draw_seed(q, dropout_p), int(max_seqlen_q), int(max_seqlen_k)),
        *(float(dropout_p), scale, float(softcap), left, right, wants_gradient((q, k, v))),
    )
    return (out, lse, None) if return_attn_probs else out


def _check_starts(q: Any, starts_q: Any, starts_k: Any, most_q: Any, most_k: Any) -> None:
    check_float(NOUN, "q", q)
    for name, starts in (("cu_seqlens_q", starts_q), ("cu_seqlens_k", starts_k)):
        check_index(NOUN, name, starts)
        if len(starts.shape) != 1 or starts.shape[0] < 1:
            refuse(NOUN, name, "of shape (sequences + 1,)", f"of shape {tuple(starts.shape)}")
    if tuple(starts_k.shape) != tuple(starts_q.shape):
        expected = f"of the shape of cu_seqlens_q, {tuple(starts_q.shape)}"
        refuse(NOUN, "cu_seqlens_k", expected, f"of shape {tuple(starts_k.shape)}")
    for name, most in (("max_seqlen_q", most_q), ("max_seqlen_k", most_k)):
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or not 0 <= most < FAR:
            refuse(NOUN, name, "a whole number, the length of the longest sequence", repr(most))


def _check_arrays(q: Any, k: Any, v: Any, slopes: Any, starts_q: Any, starts_k: Any) -> Any:
    """The slopes as kernels take them."""
    sequences, dtype = starts_q.shape[0] - 1, check_float(NOUN, "q", q)
    for name, array in (("k", k), ("v", v)):
        if check_float(NOUN, name, array) != dtype:
            refuse(NOUN, name, f"of the dtype of q, {dtype}", f"of dtype {check_float(NOUN, name, array)}")
    for name, array in (("q", q), ("k", k), ("v", v)):
        if len(array.shape) != 3 or not 1 <= array.shape[2] <= DEEPEST:
            expected = f"of shape (tokens, heads, depth), with a depth from 1 to {DEEPEST}"
            refuse(NOUN, name, expected, f"of shape {tuple(array.shape)}")
    named = {"q": q, "k": k, "v": v, "cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    check_device(NOUN, named if slopes is None else {**named, "alibi_slopes": slopes})
    if k.shape[2] != q.shape[2]:
        refuse(NOUN, "k", f"of the depth of q, {q.shape[2]}", f"of shape {tuple(k.shape)}")
    if tuple(v.shape[:2]) != tuple(k.shape[:2]):
        refuse(NOUN, "v", f"of the tokens and heads of k, {tuple(k.shape[:2])}", f"of shape {tuple(v.shape)}")
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        refuse(NOUN, "k", f"of heads that divide those of q, {q.shape[1]}", f"of {k.shape[1]}")
    if slopes is None:
        return None
    check_float(NOUN, "alibi_slopes", slopes)
    if tuple(slopes.shape) not in ((q.shape[1],), (sequences, q.shape[1])):
        expected = f"of shape ({q.shape[1]},) or ({sequences}, {q.shape[1]})"
        refuse(NOUN, "alibi_slopes", expected, f"of shape {tuple(slopes.shape)}")
    return cast(slopes, "float64" if dtype == "float64" else "float32")


def _refuse_with_table(dropout_p: float, causal: bool, right: int, returns: bool, most: int) -> None:
    if dropout_p or returns:
        refuse(NOUN, "block_table", "None with dropout_p or return_attn_probs", "given")
    if most > 1 and right != 0:
        refuse(NOUN, "causal", "True with block_table and several queries a sequence", repr(causal))


OP = Op(
    NOUN,
    "attention of sequences one after the other, as FlashAttention's, without padding",
    varlen.forward,
    varlen.backward,
    kept=2,
    autocast="lower",
    exact=("alibi_slopes",),
)
