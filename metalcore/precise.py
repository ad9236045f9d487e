"""Sums, products and norms with more digits than float32 has, on torch tensors, NumPy and mlx arrays:
docs/precise.md."""

from __future__ import annotations

from typing import Any

from metalcore.ops import functions


def __getattr__(name: str) -> Any:
    found = functions("precise")
    if name not in found:
        raise AttributeError(f"module 'metalcore.precise' has no attribute {name!r}")
    globals()[name] = found[name]
    return found[name]


def __dir__() -> list[str]:
    return sorted(functions("precise"))
