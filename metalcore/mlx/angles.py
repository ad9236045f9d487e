"""The cosines and sines that mx.fast.rope computes itself, from base or freqs, scale and offset."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from metalcore.arrays.mlx import mlx_module
from metalcore.ops.base.check import check_kind, refuse

_SMALL = 1 << 18  # angles
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")


def tables(name: str, x: Any, half: int, base: Any, scale: Any, offset: Any, freqs: Any) -> tuple[Any, Any]:
    """(tokens, half), or (batch, tokens, half) where each of the batch has its own offset: float32, or as x float64."""
    mx = mlx_module()
    is_double = x.dtype == mx.float64
    if (base is None) == (freqs is None):
        given = "None as well" if base is None else f"of type {type(base).__name__} beside freqs"
        refuse(name, "base", "a number where freqs is None, and None where it is not", given)
    if base is not None:
        base = _number(name, "base", base)
        if base <= 0:
            refuse(name, "base", "above 0", repr(base))
    scale = _number(name, "scale", scale)
    tokens = x.shape[-2]
    if freqs is not None:
        _check_freqs(name, freqs, half)
    if isinstance(offset, mx.array):
        check_kind(name, "offset", offset, _INTEGERS)
        if offset.ndim > 1 or (offset.size != 1 and offset.shape != (x.shape[0],)):
            expected = f"an int, or an array of one or {x.shape[0]} elements, as x has batches"
            refuse(name, "offset", expected, f"of shape {tuple(offset.shape)}")
    elif isinstance(offset, bool) or not isinstance(offset, int):
        refuse(name, "offset", "an int or an mlx array of integers", f"of type {type(offset).__name__}")
    elif freqs is None:
        make = _few if tokens * half <= _SMALL else _many
        found: tuple[Any, Any] = make(tokens, half, base, scale, offset, is_double)
        return found
    return _lazy(tokens, half, base, scale, offset, freqs, is_double)


def _number(name: str, argument: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        refuse(name, argument, "a finite number", repr(value))
    return float(value)


def _check_freqs(name: str, freqs: Any, half: int) -> None:
    if not isinstance(freqs, mlx_module().array):
        refuse(name, "freqs", "None or an mlx array", f"of type {type(freqs).__name__}")
    check_kind(name, "freqs", freqs, ("float32", "float16", "bfloat16", "float64"))
    if freqs.shape != (half,):
        refuse(name, "freqs", f"of shape ({half},), one for each pair of dims", f"of shape {tuple(freqs.shape)}")


def _made(tokens: int, half: int, base: float, scale: float, offset: int, is_double: bool) -> tuple[Any, Any]:
    mx = mlx_module()
    positions = scale * (offset + np.arange(tokens, dtype=np.float64))
    angles = positions[:, None] * base ** (-np.arange(half, dtype=np.float64) / half)
    dtype, kind = (mx.float64, np.float64) if is_double else (mx.float32, np.float32)
    return mx.array(np.cos(angles).astype(kind), dtype), mx.array(np.sin(angles).astype(kind), dtype)


_few, _many = lru_cache(64)(_made), lru_cache(2)(_made)


def _lazy(
    tokens: int, half: int, base: float | None, scale: float, offset: Any, freqs: Any, is_double: bool
) -> tuple[Any, Any]:
    """As steps of the graph: offset or freqs need not have values yet."""
    mx, wide = mlx_module(), _widest()
    turns = freqs.astype(wide) if base is None else mx.array(base ** (np.arange(half, dtype=np.float64) / half), wide)
    cycles = _positions(tokens, scale, offset)[..., None] / turns / (2 * math.pi)
    # mlx computes cosines of float64 in float32: what is left of whole turns is small enough for that.
    angles = (2 * math.pi * (cycles - mx.round(cycles))).astype(mx.float32)
    dtype = mx.float64 if is_double else mx.float32
    return mx.cos(angles).astype(dtype), mx.sin(angles).astype(dtype)


def _widest() -> Any:
    mx = mlx_module()
    return mx.float64 if mx.default_device() == mx.Device(mx.cpu) else mx.float32  # no GPU has float64


def _positions(tokens: int, scale: float, offset: Any) -> Any:
    mx, wide = mlx_module(), _widest()
    first = mx.array(offset, wide) if isinstance(offset, int) else mx.stop_gradient(offset).astype(wide)
    if first.size == 1:
        first = first.reshape(())
    return scale * (first[..., None] + mx.arange(tokens, dtype=wide))


def gradient_of_freqs(grad: Any, y: Any, dims: int, traditional: bool, scale: float, offset: Any, freqs: Any) -> Any:
    """By its angle a pair (a, b) of the result changes by (-b, a), and an angle by -position / freqs^2 of its freq.
    Arrays are (batch, heads, tokens, dim)."""
    mx, half = mlx_module(), dims // 2
    first, second = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(half), slice(half, dims))
    kind = mx.float64 if y.dtype == mx.float64 else mx.float32
    ga, gb, a, b = (z[..., part].astype(kind) for z in (grad, y) for part in (first, second))
    by_angle = (gb * a - ga * b).sum(1).astype(_widest())
    turns = freqs.astype(_widest())
    by_freq = -_positions(y.shape[-2], float(scale), offset)[..., None] / (turns * turns)
    return (by_angle * by_freq).sum((0, 1)).astype(freqs.dtype)
