"""Losses and logsumexp, of mlx's own functions. A class out of range gives NaN: a file cannot raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import wide


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    z_loss: float,
    softcap: float,
    float32_loss: bool,
) -> Any:
    mx = mlx_module()
    axis, logits = min(1, x.ndim - 1), wide(x)
    dtype = logits.dtype if float32_loss else x.dtype
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    if not x.size:
        return mx.zeros(rows, dtype) if reduction == "none" else mx.array(mx.nan if reduction == "mean" else 0.0, dtype)
    if softcap:
        logits = softcap * mx.tanh(logits / softcap)
    most = mx.stop_gradient(logits.max(axis, keepdims=True))
    logits = logits - mx.where(mx.abs(most) < mx.inf, most, 0.0)
    lse = mx.logsumexp(logits, axis=axis, keepdims=True)  # of logits up to 0: less is lost where it is subtracted
    classes = x.shape[axis]
    each = mx.ones((classes,), logits.dtype) if weight is None else wide(weight)
    along = each.reshape(-1, *[1] * (x.ndim - axis - 1))
    lost = (lse - logits) * along
    lse = (lse + most).squeeze(axis)
    if target.dtype == x.dtype:
        spread = wide(target) * (1 - smoothing) + smoothing / classes
        losses, divisor = (spread * lost).sum(axis), lse.size
        counts = mx.array(True)
    else:
        target = target.astype(mx.int64)
        counts, is_known = target != ignore_index, (target >= 0) & (target < classes)
        safe = mx.where(counts & is_known, target, 0)
        losses = mx.take_along_axis(lost, mx.expand_dims(safe, axis), axis).squeeze(axis)
        if smoothing:
            losses = losses * (1 - smoothing) + lost.sum(axis) * (smoothing / classes)
        losses = mx.where(is_known, losses, mx.nan)
        divisor = mx.where(counts, each[safe], 0.0).sum()
    losses = mx.where(counts, losses + z_loss * lse * lse if z_loss else losses, 0.0)
    if reduction == "none":
        return losses.astype(dtype)
    total = losses.sum()
    return (total / divisor if reduction == "mean" else total).astype(dtype)


def _kl_div(x: Any, target: Any, reduction: str, log_target: bool) -> Any:
    mx = mlx_module()
    given, t = mx.broadcast_arrays(wide(x), wide(target))
    if log_target:
        losses = mx.exp(t) * (t - given)
    else:
        losses = mx.where(t > 0, t * (mx.log(mx.where(t > 0, t, 1.0)) - given), -t * given)
    if reduction == "none":
        return losses.astype(x.dtype)
    total = losses.sum() if losses.size else mx.array(0.0, losses.dtype)  # mlx 0.32 may never end a sum over nothing
    if reduction == "mean":
        total = total / losses.size if losses.size else total * mx.nan
    if reduction == "batchmean":
        total = total / x.shape[0] if x.shape[0] else total * mx.nan
    return total.astype(x.dtype)


def _logsumexp(x: Any, dim: int, count: int, keepdim: bool) -> Any:
    mx = mlx_module()
    axes = [x.ndim + dim + i for i in range(count)]
    if not axes:
        return x
    if not x.size:
        kept = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdim or i not in axes]
        return mx.full(kept, -mx.inf, x.dtype)
    return mx.logsumexp(wide(x), axis=axes, keepdims=keepdim).astype(x.dtype)


LOSSES: dict[str, Callable[..., Any]] = {
    "cross_entropy": _cross_entropy,
    "kl_div": _kl_div,
    "logsumexp": _logsumexp,
}
