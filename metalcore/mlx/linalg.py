"""metalcore.linalg on mlx arrays, with gradients for mx.grad."""

from __future__ import annotations

from typing import Any

from metalcore.mlx import on_mlx
from metalcore.ops import function_of, functions


def __getattr__(name: str) -> Any:
    value = globals()[name] = on_mlx(f"linalg.{name}", function_of("linalg", name, __name__))
    return value


def __dir__() -> list[str]:
    return sorted(functions("linalg"))
