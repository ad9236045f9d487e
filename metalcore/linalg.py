"""Linear algebra with torch.linalg's names, signatures and return types, on torch tensors, NumPy and
mlx arrays: docs/linalg.md."""

from __future__ import annotations

from typing import Any

from metalcore.ops import functions


def __getattr__(name: str) -> Any:
    found = functions("linalg")
    if name not in found:
        raise AttributeError(f"module 'metalcore.linalg' has no attribute {name!r}")
    globals()[name] = found[name]
    return found[name]


def __dir__() -> list[str]:
    return sorted(functions("linalg"))
