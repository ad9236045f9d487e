"""Attention with torch's meaning, and what FlashAttention adds to it: kernels/attention.metal and its neighbours."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base import attention, attention_backward
from metalcore.ops.base.attention_arguments import Arguments, check_numbers, check_window, draw_seed
from metalcore.ops.base.check import dtype_name
from metalcore.ops.base.op import FLOATS, Op

NOUN = "scaled_dot_product_attention"
FASTER_FROM = 256  # queries and keys
FASTER_DEPTH = 96  # of float32: beyond it a processor without AVX-512 has 0.87 of torch's speed


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float = 0.0,
    window_size: tuple[int, int] = (-1, -1),
    alibi_slopes: Any = None,
    sinks: Any = None,
    return_lse: bool = False,
) -> Any:
    """softmax(scale query key^T + mask) value for (..., heads, rows, depth), as torch's function of this name.

    No array of rows x keys is made, forward or backward. `is_causal` is aligned at the first query and key, as torch's.
    `attn_mask` is bool (True is seen) or of the query's dtype and is added; it may have a gradient. A row that sees no
    key is 0, and so is its gradient. With `enable_gqa` a head of keys serves several of queries. The depth of values
    may be another one; neither may be above 256.

    What torch's does not have is aligned at the last query and key, as FlashAttention's: `window_size` (left, right)
    keys around a query are seen, -1 is all; `alibi_slopes` (heads,) or (batch, heads) take slope * distance from a
    score. `softcap` bends scores to +-softcap before masks. `sinks` (heads,) are one more score of each head that has
    no value. `return_lse`: also the logarithm of each row's sum of exponentials, (..., heads, rows).

    `dropout_p`: weights are dropped by a Philox generator in the kernel, seeded by torch's; the mask is not stored.

    >>> import numpy as np, metalcore
    >>> one = np.ones((1, 1, 2, 4), np.float32)
    >>> metalcore.scaled_dot_product_attention(one, one, one, is_causal=True)[0, 0]
    array([[1., 1., 1., 1.],
           [1., 1., 1., 1.]], dtype=float32)
    """
    check_numbers(NOUN, dropout_p, scale, softcap)
    left, right = check_window(NOUN, window_size)
    given = Arguments.of(NOUN, query, key, value, attn_mask, alibi_slopes, sinks, bool(enable_gqa))
    out, lse = OP(
        *(given.query, given.key, given.value, given.mask, given.slopes, given.sinks),
        draw_seed(query, dropout_p),
        float(dropout_p),
        bool(is_causal),
        1.0 / math.sqrt(max(1, given.depth)) if scale is None else float(scale),
        float(softcap),
        *(left, right, given.query_rows_first, given.key_rows_first, given.keys, given.wants_gradient),
    )
    out, lse = given.restored(out, lse)
    return (out, lse) if return_lse else out


def accepts(query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **named: Any) -> str:
    """The override leaves to torch what this op refuses, and what torch does faster."""
    if dtype_name(query) not in FLOATS or len(query.shape) < 3:
        return f"query of dtype {dtype_name(query)} and {len(query.shape)} dimensions"
    if max(query.shape[-1], value.shape[-1]) > attention.DEEPEST:
        return f"a depth above {attention.DEEPEST}"
    return ""


def slower(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **_: Any
) -> str:
    """By benchmarks/attention.py: causal attention of some hundred rows, not in bfloat16, is faster than torch's."""
    if not is_causal or attn_mask is not None or dropout_p:
        return "only causal attention without a mask is faster by measurement"
    if query.device.type != "cpu":
        return f"not measured on {query.device.type}"
    if dtype_name(query) == "bfloat16":
        return "torch multiplies bfloat16 by the processor's own instructions"
    if min(query.shape[-2], key.shape[-2]) < FASTER_FROM:
        return f"fewer than {FASTER_FROM} queries or keys"
    if dtype_name(query) == "float32" and max(query.shape[-1], value.shape[-1]) > FASTER_DEPTH:
        return f"float32 of a depth above {FASTER_DEPTH}"
    return ""


OP = Op(
    NOUN,
    "softmax(scale q k^T + mask) v with no array of rows x keys: masks, windows, ALiBi, sinks, softcap, GQA",
    attention.forward,
    attention_backward.backward,
    kept=2,
    autocast="lower",
    exact=("alibi_slopes", "sinks"),
    namesake="torch.nn.functional.scaled_dot_product_attention",
    accepts=accepts,
    override_from=1 << 18,
    slower=slower,
)
