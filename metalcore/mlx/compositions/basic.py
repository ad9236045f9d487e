"""Norms, softmax, activations, rope and gathers, of mlx's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import dtype_of, mlx_module
from metalcore.mlx.compositions.wide import wide


def _affine(y: Any, weight: Any, bias: Any, dtype: Any) -> Any:
    y = y if weight is None else y * wide(weight)
    return (y if bias is None else y + wide(bias)).astype(dtype)


def _last(dims: int) -> list[int]:
    return list(range(-dims, 0))


def _rms_norm(x: Any, weight: Any, dims: int, eps: float) -> Any:
    if not x.size:  # mlx 0.32 may never end a sum over nothing
        return x
    given = wide(x)
    power = (given * given).mean(_last(dims), keepdims=True)
    return _affine(given * mlx_module().rsqrt(power + eps), weight, None, x.dtype)


def _layer_norm(x: Any, weight: Any, bias: Any, dims: int, eps: float) -> Any:
    if not x.size:
        return x
    given = wide(x)
    centred = given - given.mean(_last(dims), keepdims=True)
    variance = (centred * centred).mean(_last(dims), keepdims=True)
    return _affine(centred * mlx_module().rsqrt(variance + eps), weight, bias, x.dtype)


def _causal(x: Any, is_causal: bool) -> Any:
    """The scores with -inf where a query does not see a key."""
    mx = mlx_module()
    if not is_causal:
        return x
    queries, keys = x.shape[-2:]
    return mx.where(mx.arange(keys) <= mx.arange(queries)[:, None] + keys - queries, x, -mx.inf)


def _softmax(x: Any, mask: Any, dim: int, causal: bool, source: str, dtype: str) -> Any:
    mx = mlx_module()
    if not x.size:
        return x.astype(dtype_of(dtype))
    scores = _causal(wide(x) if mask is None else wide(x) + wide(mask), causal)
    y = mx.softmax(scores, axis=dim if x.ndim else None, precise=True)
    return mx.where(mx.isnan(y) & (scores == -mx.inf), 0.0, y).astype(dtype_of(dtype))


def _log_softmax(x: Any, mask: Any, dim: int, causal: bool, source: str, dtype: str) -> Any:
    scores = _causal(wide(x) if mask is None else wide(x) + wide(mask), causal)
    if not x.size:
        return x.astype(dtype_of(dtype))
    return (scores - mlx_module().logsumexp(scores, axis=dim, keepdims=True)).astype(dtype_of(dtype))


def _rope(q: Any, k: Any, cos: Any, sin: Any, ids: Any, interleaved: bool, rotary_dim: int) -> tuple[Any, Any]:
    mx = mlx_module()
    width = cos.shape[-1]
    if rotary_dim == -1:
        rotary_dim = q.shape[-1] if width * 2 == q.shape[-1] else width
    half = rotary_dim // 2
    if ids is not None:
        cos, sin = cos[ids], sin[ids]
    first, second = slice(half), slice(half, rotary_dim)
    if interleaved:
        first, second = slice(0, rotary_dim, 2), slice(1, rotary_dim, 2)
    tables = []
    for table in (cos, sin):
        parts = (table[..., first], table[..., second]) if width == rotary_dim else (table, table)
        tables.append([wide(p)[..., None, :, :] if table.ndim == 3 else wide(p) for p in parts])
    (ca, cb), (sa, sb) = tables

    def turned(x: Any) -> Any:
        a, b = wide(x[..., first]), wide(x[..., second])
        ya, yb = a * ca - b * sa, b * cb + a * sb
        y = mx.stack((ya, yb), -1).reshape(*x.shape[:-1], rotary_dim) if interleaved else mx.concatenate((ya, yb), -1)
        return mx.concatenate((y.astype(x.dtype), x[..., rotary_dim:]), -1)

    return turned(q), turned(k)


def _silu(x: Any) -> Any:
    return _scaled(x, mlx_module().sigmoid).astype(x.dtype)


def _scaled(x: Any, share: Callable[[Any], Any]) -> Any:
    given = wide(x)
    return given * share(given)


def _normal(is_tanh: bool) -> Callable[[Any], Any]:
    """The share of the normal distribution below x."""
    mx = mlx_module()
    if is_tanh:
        return lambda x: (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) / 2
    return lambda x: (1 + mx.erf(x / math.sqrt(2))) / 2


def _gelu(x: Any, is_tanh: bool) -> Any:
    return _scaled(x, _normal(is_tanh)).astype(x.dtype)


def _swiglu(gate: Any, up: Any) -> Any:
    return (_scaled(gate, mlx_module().sigmoid) * wide(up)).astype(gate.dtype)


def _geglu(gate: Any, up: Any, is_tanh: bool) -> Any:
    return (_scaled(gate, _normal(is_tanh)) * wide(up)).astype(gate.dtype)


def _bias_silu(x: Any, bias: Any) -> Any:
    return _scaled(wide(x) + wide(bias), mlx_module().sigmoid).astype(x.dtype)


def _bias_gelu(x: Any, bias: Any, is_tanh: bool) -> Any:
    return _scaled(wide(x) + wide(bias), _normal(is_tanh)).astype(x.dtype)


def _softcap(x: Any, cap: float) -> Any:
    return (cap * mlx_module().tanh(wide(x) / cap)).astype(x.dtype)


def _fused_add_rms_norm(x: Any, residual: Any, weight: Any, eps: float) -> tuple[Any, Any]:
    total = x + residual
    return _rms_norm(total, weight, 1, eps), total


def _fused_add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    total = x + residual
    return _layer_norm(total, weight, bias, 1, eps), total


def _gather(x: Any, index: Any, dim: int) -> Any:
    dim = dim % max(x.ndim, 1)
    if not index.size:
        return mlx_module().zeros(index.shape, x.dtype)
    part = x[tuple(slice(None) if i == dim else slice(n) for i, n in enumerate(index.shape))]
    return mlx_module().take_along_axis(part, index, dim)


def _index_select(x: Any, index: Any, dim: int) -> Any:
    dim = dim % max(x.ndim, 1)
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    if 0 in shape:  # mlx 0.32 ends the process at the gradient of taking nothing
        return mlx_module().zeros(shape, x.dtype)
    return mlx_module().take(x, index, dim)


BASIC: dict[str, Callable[..., Any]] = {
    "bias_gelu": _bias_gelu,
    "bias_silu": _bias_silu,
    "fused_add_layer_norm": _fused_add_layer_norm,
    "fused_add_rms_norm": _fused_add_rms_norm,
    "gather": _gather,
    "geglu": _geglu,
    "gelu": _gelu,
    "index_select": _index_select,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "rms_norm": _rms_norm,
    "rope": _rope,
    "silu": _silu,
    "softcap": _softcap,
    "softmax": _softmax,
    "swiglu": _swiglu,
}
