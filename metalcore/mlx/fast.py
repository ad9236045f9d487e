"""The functions of mx.fast, and softmax, with MLX's own arguments, on the kernels of the library.

Results have mlx's shapes and dtypes: a weight of a wider type widens the result. Unlike mlx's, all sums and angles are
of float32 or better whatever the type of the arrays is.

>>> import mlx.core as mx, metalcore.mlx
>>> metalcore.mlx.fast.rms_norm(mx.array([[3.0, 3.0]]), None, 0.0)
array([[1, 1]], dtype=float32)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx import attention
from metalcore.mlx.angles import gradient_of_freqs, tables
from metalcore.mlx.export import is_exporting
from metalcore.mlx.streams import on_stream
from metalcore.ops.base.check import check_eps, check_float, refuse
from metalcore.ops.layer_norm import OP as LAYER_NORM
from metalcore.ops.rms_norm import OP as RMS_NORM
from metalcore.ops.rope import OP as ROPE
from metalcore.ops.softmax import OP as SOFTMAX

__all__ = ["layer_norm", "rms_norm", "rope", "scaled_dot_product_attention", "softmax"]


_array_type = mlx_module().array
_known: set[Any] = set()
"""Shapes and dtypes that were found good, and need no change."""


def _is_known(name: str, *arrays: Any) -> tuple[bool, Any]:
    """Whether such arrays were looked at before, and the key for `_known`; anything that is no array never was."""
    key: list[Any] = [name]
    for x in arrays:
        if x is None:
            key.append(None)
        elif type(x) is _array_type:
            key += x.shape, x.dtype
        else:
            return False, None
    found = tuple(key)
    return found in _known, found


def rms_norm(x: Any, weight: Any, eps: float, *, stream: Any = None) -> Any:
    """`x` over the root of its mean square over the last axis, times `weight` where it is not None.

    >>> import mlx.core as mx
    >>> rms_norm(mx.array([[4.0, -4.0]]), mx.array([1.0, 2.0]), 0.0)
    array([[1, -2]], dtype=float32)
    """
    if stream is not None:
        with on_stream("fast.rms_norm", stream):
            return rms_norm(x, weight, eps)
    x, (weight,), eps = _normed("fast.rms_norm", x, eps, weight=weight)
    return RMS_NORM(x, weight, 1, eps) if x.size else x


def layer_norm(x: Any, weight: Any, bias: Any, eps: float, *, stream: Any = None) -> Any:
    """`x` with mean 0 and variance 1 over the last axis, times `weight` plus `bias` where they are not None.

    >>> import mlx.core as mx
    >>> layer_norm(mx.array([[1.0, 3.0]]), None, mx.array([1.0, 1.0]), 0.0)
    array([[0, 2]], dtype=float32)
    """
    if stream is not None:
        with on_stream("fast.layer_norm", stream):
            return layer_norm(x, weight, bias, eps)
    x, (weight, bias), eps = _normed("fast.layer_norm", x, eps, weight=weight, bias=bias)
    return LAYER_NORM(x, weight, bias, 1, eps) if x.size else x


def _normed(name: str, x: Any, eps: Any, **parameters: Any) -> tuple[Any, list[Any], float]:
    """Arrays of one dtype, the one that mlx's result has, and eps."""
    is_known, key = _is_known(name, x, *parameters.values())
    if is_known and type(eps) is float and eps >= 0:
        return x, list(parameters.values()), eps
    name = f"mlx.{name}"
    dtype = _float(name, "x", x)
    if x.ndim == 0:
        refuse(name, "x", "of one dimension or more", "of none")
    given = [x]
    for argument, value in parameters.items():
        if value is not None:
            _float(name, argument, value)
            if value.shape != x.shape[-1:]:
                refuse(name, argument, f"of shape {tuple(x.shape[-1:])}, as the last axis of x", f"of {value.shape}")
            given.append(value)
    if isinstance(eps, (mlx_module().array, bool)):
        refuse(name, "eps", "a number that is not negative", repr(eps))
    eps = check_eps(name, eps)
    if any(value.dtype != dtype for value in given):
        if parameters["weight"] is not None:  # a bias alone does not widen mlx's result
            dtype = mlx_module().result_type(*given)
        x = x.astype(dtype)
        return x, [value if value is None else value.astype(dtype) for value in parameters.values()], eps
    if key is not None:
        if len(_known) >= 4096:
            _known.clear()
        _known.add(key)
    return x, list(parameters.values()), eps


def _array(name: str, argument: str, value: Any) -> None:
    if not isinstance(value, mlx_module().array):
        refuse(name, argument, "an mlx array", f"of type {type(value).__name__}")


def _float(name: str, argument: str, value: Any) -> Any:
    """The dtype of an mlx array of floats."""
    _array(name, argument, value)
    check_float(name, argument, value)
    return value.dtype


def rope(
    x: Any,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: Any,
    freqs: Any = None,
    stream: Any = None,
) -> Any:
    """The first `dims` elements of each token of x (batch, ..., tokens, dim) turned by the angles of their positions.

    A position is scale * (offset + token); `offset` is an int, or an array of integers, one for all or one for each
    of the batch. Pair i turns by position * base^(-2i / dims), or by position / freqs[i]. Pairs are (i, i + dims / 2),
    or neighbours where `traditional`. Angles are computed in float64. There is no gradient of offset.

    >>> import mlx.core as mx
    >>> x = mx.array([[[1.0, 0.0]]])
    >>> rope(x, 2, traditional=False, base=10000.0, scale=1.0, offset=0)
    array([[[1, 0]]], dtype=float32)
    """
    if stream is not None:
        with on_stream("fast.rope", stream):
            return rope(x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)
    name = "mlx.fast.rope"
    _float(name, "x", x)
    if x.ndim < 3:
        refuse(name, "x", "of shape (batch, ..., tokens, dim)", f"of shape {tuple(x.shape)}")
    if isinstance(dims, bool) or not isinstance(dims, int) or dims % 2 or not 0 < dims <= x.shape[-1]:
        refuse(name, "dims", f"even, from 2 to {x.shape[-1]}, as many as x has", repr(dims))
    cos, sin = tables(name, x, dims // 2, base, scale, offset, freqs)
    if not x.size:
        return x
    batch, *middle, tokens, dim = x.shape
    whole = x if x.ndim == 4 else x.reshape(batch, math.prod(middle), tokens, dim)
    none = mlx_module().zeros((batch, 0, tokens, dim), x.dtype)

    def turn(x: Any, cos: Any, sin: Any) -> Any:
        return ROPE(x, none, cos, sin, None, bool(traditional), dims)[0]

    if freqs is None or is_exporting():
        turned = turn(whole, cos, sin)
    else:
        gradient = partial(gradient_of_freqs, dims=dims, traditional=bool(traditional), scale=scale, offset=offset)
        turned = _turned_by_freqs(turn, gradient, whole, cos, sin, freqs)
    return turned if x.ndim == 4 else turned.reshape(x.shape)


def _turned_by_freqs(
    turn: Callable[..., Any], gradient: Callable[..., Any], x: Any, cos: Any, sin: Any, freqs: Any
) -> Any:
    """With a gradient of freqs: the kernels have none of cosines and sines."""
    mx = mlx_module()
    by_freqs = mx.custom_function(lambda x, freqs, cos, sin: turn(x, cos, sin))

    def back(primals: Any, grad: Any, y: Any) -> Any:
        _, freqs, cos, sin = primals
        return turn(grad, cos, -sin), gradient(grad, y, freqs=freqs), mx.zeros_like(cos), mx.zeros_like(sin)

    by_freqs.vjp(back)
    return by_freqs(x, freqs, mx.stop_gradient(cos), mx.stop_gradient(sin))


def softmax(x: Any, axis: int | Sequence[int] | None = -1, precise: bool = False, *, stream: Any = None) -> Any:
    """exp(x), scaled so that it adds up to one over an axis, over several together, or over all where it is None.

    Sums are of float32 whether `precise` or not. Integers give float32.

    >>> import mlx.core as mx
    >>> softmax(mx.zeros((2, 2)))
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    if stream is not None:
        with on_stream("fast.softmax", stream):
            return softmax(x, axis, precise)
    mx, name = mlx_module(), "mlx.fast.softmax"
    _array(name, "x", x)
    if not isinstance(precise, bool):
        refuse(name, "precise", "True or False", repr(precise))
    if not mx.issubdtype(x.dtype, mx.inexact):
        x = x.astype(mx.float32)
    kind = check_float(name, "x", x)
    axes = _axes(name, x.ndim, axis)
    if not x.size or not axes:
        return mx.ones_like(x)
    if len(axes) == 1:
        return SOFTMAX(x, None, axes[0] - x.ndim, False, kind, kind)
    order = [i for i in range(x.ndim) if i not in axes] + axes
    turned = x.transpose(order)
    rows = turned.reshape(*turned.shape[: x.ndim - len(axes)], -1)
    y = SOFTMAX(rows, None, -1, False, kind, kind).reshape(turned.shape)
    return y.transpose([order.index(i) for i in range(x.ndim)])


def _axes(name: str, rank: int, axis: Any) -> list[int]:
    """Sorted, counted from the front."""
    if axis is None:
        return list(range(rank))
    given = [axis] if isinstance(axis, int) else list(axis) if isinstance(axis, Sequence) else None
    if given is None or any(isinstance(a, bool) or not isinstance(a, int) or not -rank <= a < rank for a in given):
        refuse(name, "axis", f"None, or axes of x, which has {rank}", repr(axis))
    found = sorted({a % rank for a in given})
    if len(found) < len(given):
        refuse(name, "axis", "of axes that are all different", repr(axis))
    return found


def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, *, scale: float, mask: Any = None, sinks: Any = None, force_fused: bool = False,
    stream: Any = None,
) -> Any:  # fmt: skip
    """softmax(scale q k^T + mask) v: metalcore.mlx.scaled_dot_product_attention, which is always fused.

    >>> import mlx.core as mx
    >>> one = mx.ones((1, 1, 2, 4))
    >>> scaled_dot_product_attention(one, one, one, scale=0.5, mask="causal").shape
    (1, 1, 2, 4)
    """
    if not isinstance(force_fused, bool):
        refuse("mlx.fast.scaled_dot_product_attention", "force_fused", "True or False", repr(force_fused))
    if stream is not None:
        with on_stream("fast.scaled_dot_product_attention", stream):
            return attention.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)
    return attention.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)
