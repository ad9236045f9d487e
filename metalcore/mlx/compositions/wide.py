"""What the compositions share."""

from __future__ import annotations

from typing import Any, NoReturn

from metalcore.arrays.mlx import mlx_module
from metalcore.errors import TransformError


def wide(x: Any) -> Any:
    mx = mlx_module()
    return x if x.dtype == mx.float64 else x.astype(mx.float32)


def refuse_export(noun: str, reason: str) -> NoReturn:
    raise TransformError(f"metalcore.{noun} cannot be exported: {reason}")
