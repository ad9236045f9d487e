"""Attention of mlx's own functions, with all that the kernels have but dropout. It makes arrays of rows x keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import refuse_export, wide


def _dense(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    slopes: Any,
    sinks: Any,
    seed: Any,
    dropout: float,
    is_causal: bool,
    scale: float,
    softcap: float,
    left: int,
    right: int,
    query_rows_first: bool,
    key_rows_first: bool,
    keys: int,
    wants_gradient: bool,
) -> tuple[Any, Any]:
    mx = mlx_module()
    _no_dropout("scaled_dot_product_attention", dropout)
    rows, columns = query.shape[-2], key.shape[-2]
    i, j = mx.arange(rows)[:, None], mx.arange(columns)
    ends = i + columns - rows
    seen = j <= i if is_causal else mx.array(True)
    seen = seen & _in_window(j - ends, left, right)
    bias = None
    if slopes is not None:
        slopes = wide(slopes).reshape(*query.shape[:-3], -1) if slopes.ndim > 1 else wide(slopes)
        bias = -slopes[..., None, None] * mx.abs(ends - j)
    if mask is not None:
        full = (*query.shape[:-1], columns)
        mask = mask.reshape(*full[:-3], *mask.shape[1:]) if mask.ndim == 4 and mask.shape[0] > 1 else mask
        if mask.dtype == mx.bool_:
            seen = seen & mask
        else:
            bias = wide(mask) if bias is None else bias + wide(mask)
    return _attend(query, key, value, bias, seen, sinks, scale, softcap)


def _attend(
    query: Any, key: Any, value: Any, bias: Any, seen: Any, sinks: Any, scale: float, softcap: float
) -> tuple[Any, Any]:
    """The result and the logarithm of each row's sum of (..., heads, rows, depth)."""
    mx = mlx_module()
    rows, columns = query.shape[:-1], key.shape[-2]
    if not query.size or not columns or not key.size:
        lse = mx.full(rows, -mx.inf, wide(query).dtype)
        if sinks is not None:
            lse = mx.broadcast_to(wide(sinks)[:, None], rows)
        return mx.zeros((*rows, value.shape[-1]), query.dtype), lse
    each = query.shape[-3] // key.shape[-3]
    q, k, v = wide(query), wide(key), wide(value)
    if each != 1:
        k, v = mx.repeat(k, each, axis=-3), mx.repeat(v, each, axis=-3)
    scores = (q @ k.swapaxes(-1, -2)) * scale
    if softcap:
        scores = softcap * mx.tanh(scores / softcap)
    scores = mx.where(seen, scores if bias is None else scores + bias, -mx.inf)
    if sinks is not None:
        column = mx.broadcast_to(wide(sinks)[:, None, None], (*rows, 1))
        scores = mx.concatenate((scores, column), -1)
    most = mx.stop_gradient(scores.max(-1, keepdims=True))
    is_empty = most == -mx.inf
    shares = mx.exp(mx.where(is_empty, -mx.inf, scores) - mx.where(is_empty, 0.0, most))
    total = shares.sum(-1, keepdims=True)
    weights = shares / mx.where(is_empty, 1.0, total)
    lse = mx.where(is_empty, -mx.inf, most + mx.log(mx.where(is_empty, 1.0, total)))
    return (weights[..., :columns] @ v).astype(query.dtype), lse.squeeze(-1)


def _in_window(shift: Any, left: int, right: int) -> Any:
    """Of `shift`, how far a key is behind the one that a query stands at."""
    seen = mlx_module().array(True)
    seen = seen & (shift >= -left) if left >= 0 else seen
    return seen & (shift <= right) if right >= 0 else seen


def _no_dropout(noun: str, dropout: float) -> None:
    if dropout:
        refuse_export(noun, "mlx's functions do not drop the weights that its dropout drops; use dropout_p=0")


def _varlen(
    q: Any,
    k: Any,
    v: Any,
    starts_q: Any,
    starts_k: Any,
    slopes: Any,
    seed: Any,
    most_q: int,
    most_k: int,
    dropout: float,
    scale: float,
    softcap: float,
    left: int,
    right: int,
    wants_gradient: bool,
) -> tuple[Any, Any]:
    """All tokens at once: a query sees those of its own sequence."""
    mx = mlx_module()
    _no_dropout("flash_attn_varlen_func", dropout)
    rows, columns, sequences = q.shape[0], k.shape[0], starts_q.shape[0] - 1
    a, b = starts_q.astype(mx.int64), starts_k.astype(mx.int64)
    i, j = mx.arange(rows, dtype=mx.int64), mx.arange(columns, dtype=mx.int64)
    bias, seen = None, mx.array(False)
    if rows and columns and sequences:
        of_q, of_k = ((x[:, None] >= ends[1:]).sum(1) for x, ends in ((i, a), (j, b)))
        known = mx.minimum(of_q, sequences - 1)
        end = i - a[known + 1] + b[known + 1]
        shift = j - end[:, None]
        seen = (of_q[:, None] == of_k) & (of_q < sequences)[:, None] & _in_window(shift, left, right)
        if slopes is not None:
            own = wide(slopes)[:, None] if slopes.ndim == 1 else wide(slopes)[known].T
            bias = -own[..., None] * mx.abs(shift)
    query, key, value = (x.swapaxes(0, 1) for x in (q, k, v))
    out, lse = _attend(query, key, value, bias, seen, None, scale, softcap)
    return out.swapaxes(0, 1), lse


ATTENTION: dict[str, Callable[..., Any]] = {
    "flash_attn_func": _dense,
    "flash_attn_varlen_func": _varlen,
    "scaled_dot_product_attention": _dense,
}
