"""The cells of xLSTM, of mlx's own functions. mLSTM is its parallel form, which has an array of rows x rows; sLSTM goes
step by step, so that a file grows with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import wide


def _log_sigmoid(x: Any) -> Any:
    mx = mlx_module()
    return mx.minimum(x, 0) - mx.log1p(mx.exp(-mx.abs(x)))


def _mlstm(
    q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float, chunk: int, is_sigmoid: bool
) -> tuple[Any, Any, Any, Any]:
    """Row t takes row s with the product of the forget gates between them: its logarithm is summed up for each pair, as
    a difference of two sums would lose digits."""
    mx = mlx_module()
    batch, heads, length, depth = q.shape
    width, kind = v.shape[-1], wide(q).dtype
    c = mx.zeros((batch, heads, depth, width), kind) if c is None else wide(c)
    n = mx.zeros((batch, heads, depth), kind) if n is None else wide(n)
    m = mx.zeros((batch, heads), kind) if m is None or is_sigmoid else wide(m)
    if not length or not batch:
        return mx.zeros(v.shape, q.dtype), c, n, m
    query, key, value = wide(q) / math.sqrt(depth), wide(k), wide(v)
    log_f = _log_sigmoid(wide(f))
    log_i = _log_sigmoid(wide(i)) if is_sigmoid else wide(i)
    row, other = mx.arange(length)[:, None], mx.arange(length)
    between = mx.cumsum(mx.where(row > other, log_f[..., None], 0.0), axis=-2)
    taken = mx.where(row >= other, between + log_i[..., None, :], -mx.inf)
    before = mx.cumsum(log_f, axis=-1) + m[..., None]
    most = mx.zeros_like(before) if is_sigmoid else mx.maximum(taken.max(-1), before)
    weights, kept = mx.exp(taken - most[..., None]), mx.exp(before - most)
    scores = (query @ key.swapaxes(-1, -2)) * weights
    below = scores.sum(-1) + kept * (query * n[..., None, :]).sum(-1)
    below = mx.maximum(mx.abs(below), mx.exp(-most)) + eps
    h = (scores @ value + kept[..., None] * (query @ c)) / below[..., None]
    share, stays = weights[..., -1, :, None] * key, kept[..., -1, None]
    c = share.swapaxes(-1, -2) @ value + stays[..., None] * c
    return h.astype(q.dtype), c, share.sum(-2) + stays * n, most[..., -1]


def _mlstm_parallel(q: Any, k: Any, v: Any, i: Any, f: Any, eps: float, chunk: int, is_sigmoid: bool) -> Any:
    return _mlstm(q, k, v, i, f, None, None, None, eps, chunk, is_sigmoid)[0]


def _slstm_step(x: Any, *rest: Any) -> tuple[Any, ...]:
    y, *last = _slstm(x[:, None], *rest)
    return y[:, 0], *last


def _slstm(
    x: Any, R: Any, b: Any, y: Any, c: Any, n: Any, m: Any, wants_gradient: bool
) -> tuple[Any, Any, Any, Any, Any]:
    mx = mlx_module()
    batch, steps, _, heads, depth = x.shape
    kind = wide(x).dtype
    y, c, n, m = (mx.zeros((batch, heads, depth), kind) if s is None else wide(s) for s in (y, c, n, m))
    if not steps or not batch:
        return mx.zeros((batch, steps, heads, depth), x.dtype), y, c, n, m
    given, matrices, found = wide(x) + wide(b), wide(R), []
    for at in range(steps):
        raw = given[:, at] + (y[:, None, :, None, :] @ matrices)[..., 0, :]
        raw_i, raw_f, raw_z, raw_o = (raw[:, gate] for gate in range(4))
        kept = _log_sigmoid(raw_f) + m
        m = mx.where(n == 0, raw_i, mx.maximum(raw_i, kept))
        enters, stays = mx.exp(raw_i - m), mx.exp(mx.minimum(kept - m, 0))
        c, n = stays * c + enters * mx.tanh(raw_z), stays * n + enters
        y = mx.sigmoid(raw_o) * c / n
        found.append(y)
    return mx.stack(found, 1).astype(x.dtype), y, c, n, m


RECURRENT: dict[str, Callable[..., Any]] = {
    "mlstm_chunkwise": _mlstm,
    "mlstm_parallel": _mlstm_parallel,
    "mlstm_recurrent": _mlstm,
    "mlstm_siging_chunkwise": _mlstm,
    "mlstm_step": _mlstm,
    "slstm": _slstm,
    "slstm_step": _slstm_step,
}
