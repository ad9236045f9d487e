"""What functions return: torch's own named tuples for tensors, tuples with the same fields for other arrays."""

from __future__ import annotations

import sys
from collections import namedtuple
from functools import cache
from typing import Any


def named(kind: str, fields: str, values: tuple[Any, ...]) -> Any:
    """`torch.return_types.<kind>` of tensors, for example named("linalg_qr", "Q R", (q, r))."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values[0], torch.Tensor):
        return getattr(torch.return_types, kind)(values)
    return _tuple(kind, fields)(*values)


@cache
def _tuple(kind: str, fields: str) -> Any:
    # pickle cannot find such a class by its name.
    again = {"__reduce__": lambda self: (_made_again, (kind, fields, tuple(self))), "__slots__": ()}
    return type(kind, (namedtuple(kind, fields),), again)


def _made_again(kind: str, fields: str, values: tuple[Any, ...]) -> Any:
    return _tuple(kind, fields)(*values)


def batch_element(op: str, position: int, is_batch: bool) -> str:
    """How torch begins an error about one matrix."""
    return f"{op}: (Batch element {position}): " if is_batch else f"{op}: "
