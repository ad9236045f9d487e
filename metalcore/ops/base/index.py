"""Indices that come from data: their types, and what is said about a wrong one."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import dtype_name, refuse

INDEX_TYPES = ("int64", "int32")
"""What torch takes; mlx gives uint32, which is taken too."""


def check_index(op: str, argument: str, array: Any) -> str:
    """The dtype's name, where it is one of indices."""
    name = dtype_name(array)
    if name not in INDEX_TYPES and name != "uint32":
        refuse(op, argument, "int64, int32 or uint32", f"of dtype {name}")
    return name


def explain_index(op: str, argument: str, place: int, value: int, size: int) -> str:
    return f"{op}: {argument} has {value} at place {place}, which is out of range: it must be in 0 to {size - 1}"
