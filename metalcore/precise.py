"""Sums, products and norms with more digits than float32 has, on torch tensors, NumPy and mlx arrays:
docs/precise.md."""

from __future__ import annotations

from typing import Any

from metalcore.ops import function_of, functions


def __getattr__(name: str) -> Any:
    value = globals()[name] = function_of("precise", name, __name__)
    return value


def __dir__() -> list[str]:
    return sorted(functions("precise"))
