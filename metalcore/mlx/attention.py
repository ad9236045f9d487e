"""Attention with MLX's own signature and meaning, on the kernels of metalcore.scaled_dot_product_attention."""

from __future__ import annotations

import math
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.export import is_exporting
from metalcore.ops.base.check import dtype_name, refuse
from metalcore.ops.base.op import FLOATS
from metalcore.ops.scaled_dot_product_attention import scaled_dot_product_attention as attend

NOUN = "mlx.scaled_dot_product_attention"


def scaled_dot_product_attention(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    """softmax(scale q k^T + mask) v as mx.fast.scaled_dot_product_attention, with a gradient that makes no array of
    rows x keys either.

    q (batch, heads, rows, depth), k and v likewise, with heads that divide those of q. `mask` is "causal", aligned at
    the last query and key, or an array that can be broadcast to (batch, heads, rows, keys): bool, where True is seen,
    or one that is added. `sinks` (heads,) are one more score of each head that has no value. A row that sees no key
    is 0, where MLX gives the mean of all values.

    >>> import mlx.core as mx, metalcore.mlx
    >>> one = mx.ones((1, 1, 2, 4))
    >>> metalcore.mlx.scaled_dot_product_attention(one, one, one, scale=0.5, mask="causal").shape
    (1, 1, 2, 4)
    """
    mx = mlx_module()
    for name, array in (("q", q), ("k", k), ("v", v)):
        if not isinstance(array, mx.array) or array.ndim != 4:
            found = f"of shape {tuple(array.shape)}" if hasattr(array, "shape") else f"of type {type(array).__name__}"
            refuse(NOUN, name, "an mlx array of shape (batch, heads, rows, depth)", found)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        refuse(NOUN, "scale", "a finite number", repr(scale))
    if is_exporting():
        attention = getattr(mx.fast.scaled_dot_product_attention, "__wrapped__", mx.fast.scaled_dot_product_attention)
        return attention(q, k, v, scale=scale, mask=mask, sinks=sinks)
    dtype = mx.result_type(q, k, v)
    if dtype_name(mx.zeros((), dtype)) not in FLOATS:
        refuse(NOUN, "q, k and v", f"of {', '.join(FLOATS)}", f"of dtype {dtype}")
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    is_causal = isinstance(mask, str)
    if is_causal and mask != "causal":
        refuse(NOUN, "mask", 'None, "causal" or an mlx array', repr(mask))
    if mask is not None and not is_causal:
        mask = _checked_mask(mask, (*q.shape[:3], k.shape[2]), dtype)
    if sinks is not None and (not isinstance(sinks, mx.array) or mx.result_type(sinks, q) != dtype):
        refuse(NOUN, "sinks", f"an mlx array whose dtype promotes to that of the result, {dtype}", _described(sinks))
    return attend(
        q,
        k,
        v,
        None if is_causal else mask,
        scale=scale,
        enable_gqa=True,
        window_size=(-1, 0) if is_causal else (-1, -1),
        sinks=None if sinks is None else sinks.astype(dtype),
    )


def _checked_mask(mask: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    mx = mlx_module()
    if not isinstance(mask, mx.array):
        refuse(NOUN, "mask", 'None, "causal" or an mlx array', f"of type {type(mask).__name__}")
    fits = mask.ndim <= 4 and all(n in (1, m) for n, m in zip(mask.shape[::-1], shape[::-1], strict=False))
    if not fits:
        refuse(NOUN, "mask", f"of a shape that can be broadcast to {shape}", f"of shape {tuple(mask.shape)}")
    if mask.dtype == mx.bool_:
        return mask
    if mx.result_type(mask, mx.zeros((), dtype)) != dtype:
        refuse(NOUN, "mask", f"of a dtype that promotes to that of the result, {dtype}", f"of dtype {mask.dtype}")
    return mask.astype(dtype)


def _described(value: Any) -> str:
    return f"of dtype {value.dtype}" if hasattr(value, "dtype") else f"of type {type(value).__name__}"
