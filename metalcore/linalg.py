"""Linear algebra with torch.linalg's names, signatures and return types, on torch tensors, NumPy and
mlx arrays: docs/linalg.md."""

from __future__ import annotations

from typing import Any

from metalcore.ops import function_of, functions


def __getattr__(name: str) -> Any:
    value = globals()[name] = function_of("linalg", name, __name__)
    return value


def __dir__() -> list[str]:
    return sorted(functions("linalg"))
