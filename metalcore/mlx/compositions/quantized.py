"""Matrices of small integers, of mlx's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import wide


def _by_column(groups: Any, group_size: int, width: int) -> Any:
    return mlx_module().repeat(wide(groups), group_size, axis=1)[:, :width]


def _weight(packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    mx = mlx_module()
    outs, width = packed.shape[0], 2 * packed.shape[1]
    codes = mx.stack((packed & 15, packed >> 4), -1).reshape(outs, width)
    codes = codes.astype(mx.float64 if scales.dtype == mx.float64 else mx.float32)
    return (codes - _by_column(zeros, group_size, width)) * _by_column(scales, group_size, width)


def _dequantize_int4(packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    return _weight(packed, scales, zeros, group_size).astype(scales.dtype)


def _product(x: Any, weight: Any) -> Any:
    mx = mlx_module()
    if not x.size or not weight.size:
        return mx.zeros((*x.shape[:-1], weight.shape[0]), x.dtype)
    return (wide(x) @ weight.T).astype(x.dtype)


def _matmul_int4(x: Any, packed: Any, scales: Any, zeros: Any, group_size: int) -> Any:
    return _product(x, _weight(packed, scales, zeros, group_size))


def _matmul_int8(x: Any, weight: Any, scales: Any) -> Any:
    width = weight.shape[1]
    if scales.ndim == 1:
        return _product(x, wide(weight) * wide(scales)[:, None])
    return _product(x, wide(weight) * _by_column(scales, width // max(1, scales.shape[1]), width))


def _quantize_int4(weight: Any, group_size: int, symmetric: bool) -> tuple[Any, Any, Any]:
    mx = mlx_module()
    outs, width = weight.shape
    groups = -(-width // group_size)
    if not outs:
        return mx.zeros((0, width // 2), mx.uint8), *[mx.zeros((0, groups), weight.dtype)] * 2
    padded = mx.pad(wide(weight), ((0, 0), (0, groups * group_size - width))).reshape(outs, groups, group_size)
    low, high = mx.minimum(padded.min(-1), 0), mx.maximum(padded.max(-1), 0)
    scales = (mx.maximum(high, -low) / 7 if symmetric else (high - low) / 15).astype(weight.dtype)
    scales = mx.where(scales == 0, mx.ones_like(scales), scales)
    used = wide(scales)
    zeros = mx.full(used.shape, 8.0) if symmetric else mx.clip(mx.round(-low / used), 0, 15)
    codes = mx.clip(mx.round(padded / used[..., None]) + zeros[..., None], 0, 15)
    codes = codes.reshape(outs, groups * group_size)[:, :width].astype(mx.uint8)
    return codes[:, 0::2] | (codes[:, 1::2] << 4), scales, zeros.astype(weight.dtype)


QUANTIZED: dict[str, Callable[..., Any]] = {
    "dequantize_int4": _dequantize_int4,
    "matmul_int4": _matmul_int4,
    "matmul_int8": _matmul_int8,
    "quantize_int4": _quantize_int4,
}
