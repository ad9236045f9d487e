"""metalcore.linalg on mlx arrays, with gradients for mx.grad."""

from __future__ import annotations

from typing import Any

from metalcore.mlx import on_mlx
from metalcore.ops import functions


def __getattr__(name: str) -> Any:
    found = functions("linalg")
    if name not in found:
        raise AttributeError(f"module 'metalcore.mlx.linalg' has no attribute {name!r}")
    value = globals()[name] = on_mlx(f"linalg.{name}", found[name])
    return value


def __dir__() -> list[str]:
    return sorted(functions("linalg"))
