"""Modules of mlx.nn on the functions of metalcore.mlx.fast: the same arguments, parameters and names."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from metalcore.mlx import fast
from metalcore.packages import needed_for

with needed_for("metalcore.mlx.nn"):
    nn: Any = import_module("mlx.nn")
    mx: Any = import_module("mlx.core")

__all__ = ["LayerNorm", "MultiHeadAttention", "RMSNorm", "RoPE", "Softmax"]


class RMSNorm(nn.RMSNorm):  # type: ignore[misc]
    """mlx.nn.RMSNorm(dims, eps=1e-5).

    >>> import mlx.core as mx
    >>> RMSNorm(2, eps=1e-9)(mx.array([[3.0, 3.0]]))
    array([[1, 1]], dtype=float32)
    """

    def __call__(self, x: Any) -> Any:
        return fast.rms_norm(x, self["weight"], self.eps)


class LayerNorm(nn.LayerNorm):  # type: ignore[misc]
    """mlx.nn.LayerNorm(dims, eps=1e-5, affine=True, bias=True)."""

    def __call__(self, x: Any) -> Any:
        return fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RoPE(nn.RoPE):  # type: ignore[misc]
    """mlx.nn.RoPE(dims, traditional=False, base=10000, scale=1.0); the offset of a call may be an array."""

    def __call__(self, x: Any, offset: Any = 0) -> Any:
        given = {"traditional": self.traditional, "base": self.base, "scale": self.scale}
        return fast.rope(x, self.dims, offset=offset, **given)


class Softmax(nn.Softmax):  # type: ignore[misc]
    """mlx.nn.Softmax()."""

    def __call__(self, x: Any, axis: int = -1) -> Any:
        return fast.softmax(x, axis)


class MultiHeadAttention(nn.MultiHeadAttention):  # type: ignore[misc]
    """mlx.nn.MultiHeadAttention(dims, num_heads, ...), whose attention makes no array of queries x keys."""

    def __call__(self, queries: Any, keys: Any, values: Any, mask: Any = None) -> Any:
        projections = zip((self.query_proj, self.key_proj, self.value_proj), (queries, keys, values), strict=True)
        q, k, v = (mx.unflatten(p(x), -1, (self.num_heads, -1)).transpose(0, 2, 1, 3) for p, x in projections)
        y = fast.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(q.shape[-1]), mask=mask)
        return self.out_proj(y.transpose(0, 2, 1, 3).flatten(-2, -1))
