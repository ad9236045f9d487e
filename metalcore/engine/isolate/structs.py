"""The layout of a struct as a compiler in a worker tells it; this process writes memory by it, so it is checked."""

from __future__ import annotations

import math
from typing import Any

from metalcore.engine.frontend.records import SCALARS, Field, Type
from metalcore.engine.isolate.messages import Nonsense, integer, items, plain_text

_KINDS = ("number", "pointer", "record", "enum", "other")
_SCALARS = frozenset(scalar for scalar, _ in SCALARS.values())
_LARGEST, _DEEPEST, _MOST = 1 << 28, 64, 100_000
_KEYS = {"kind", "text", "size", "scalar", "lanes", "columns", "is_const", "target", "fields"}


def struct_type(data: Any) -> Type:
    """A type whose members lie inside of it."""
    return _Reader().type(data, 0)


class _Reader:
    def __init__(self) -> None:
        self._left = _MOST

    def type(self, data: Any, depth: int) -> Type:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0 or not isinstance(data, dict) or data.keys() != _KEYS:
            raise Nonsense("no type of a struct")
        kind, scalar = data["kind"], plain_text(data["scalar"])
        size, lanes, columns = integer(data["size"], 0, _LARGEST), integer(data["lanes"], 1, 4), data["columns"]
        if kind not in _KINDS or (kind == "number") != (scalar in _SCALARS) or not isinstance(data["is_const"], bool):
            raise Nonsense("a type of no kind")
        if (kind == "number" and size < lanes * integer(columns, 1, 4)) or (kind == "pointer" and size != 8):
            raise Nonsense("a type of a size that it cannot have")
        target = None if data["target"] is None else self.type(data["target"], depth + 1)
        fields = tuple(self._field(each, size, depth + 1) for each in items(data["fields"]))
        words = plain_text(data["text"])
        return Type(kind, words, size, scalar, lanes, integer(columns, 1, 4), data["is_const"], target, fields)

    def _field(self, data: Any, room: int, depth: int) -> Field:
        if not isinstance(data, dict) or data.keys() != {"name", "offset", "counts", "type"}:
            raise Nonsense("no member of a struct")
        kind = self.type(data["type"], depth)
        counts = tuple(integer(n, 0, _LARGEST) for n in items(data["counts"]))
        offset = integer(data["offset"], 0, _LARGEST)
        if len(counts) > _DEEPEST or offset + max(1, kind.size) * math.prod(counts) > max(1, room):
            raise Nonsense("a member outside of its struct")
        return Field(plain_text(data["name"]), offset, counts, kind)
