"""Attention with FlashAttention's arguments and meaning, on the kernels of scaled_dot_product_attention."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from metalcore.ops.base.attention_arguments import Arguments, check_numbers, check_window, draw_seed
from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op
from metalcore.ops.scaled_dot_product_attention import OP as DENSE

NOUN = "flash_attn_func"


def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0, alibi_slopes: Any = None,
    deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Attention as FlashAttention's function of this name: q (batch, rows, heads, depth), k and v likewise, with heads
    that divide those of q.

    `causal` and `window_size` are aligned at the last query and key: query i sees keys up to i + keys - queries. The
    gradient is the same in every run, whatever `deterministic` says. `return_attn_probs` gives (out, softmax_lse,
    None): no array of rows x keys exists.

    >>> import numpy as np, metalcore
    >>> one = np.ones((1, 2, 1, 4), np.float32)
    >>> metalcore.flash_attn_func(one, one, one, causal=True).shape
    (1, 2, 1, 4)
    """
    check_numbers(NOUN, dropout_p, softmax_scale, softcap, "softmax_scale")
    left, right = check_window(NOUN, window_size)
    for name, array in (("q", q), ("k", k), ("v", v)):
        if len(getattr(array, "shape", ())) != 4:
            found = f"of shape {tuple(array.shape)}" if hasattr(array, "shape") else type(array).__name__
            refuse(NOUN, name, "of shape (batch, rows, heads, depth)", found)
    query, key, value = (x.swapaxes(1, 2) for x in (q, k, v))
    given = Arguments.of(NOUN, query, key, value, None, alibi_slopes, None, True, names=("q", "k", "v"))
    out, lse = OP(
        *(given.query, given.key, given.value, given.mask, given.slopes, given.sinks),
        draw_seed(q, dropout_p),
        float(dropout_p),
        False,
        1.0 / math.sqrt(given.depth) if softmax_scale is None else float(softmax_scale),
        float(softcap),
        *(left, 0 if causal else right, given.query_rows_first, given.key_rows_first, -1, given.wants_gradient),
    )
    out, lse = given.restored(out, lse)
    out = out.swapaxes(1, 2)
    return (out, lse, None) if return_attn_probs else out


OP: Op = dataclasses.replace(
    DENSE,
    noun=NOUN,
    summary="attention of (batch, rows, heads, depth) as FlashAttention's; causal is aligned at the last query and key",
    namesake="",
    accepts=None,
)
