"""The small part of torch's schema language that ops use."""

from __future__ import annotations

import re
from typing import NamedTuple

from metalcore.errors import ArgumentError

_TYPES = r"(?:Tensor|SymInt|int|bool|float)\[\]|Tensor\(\w!\)|Tensor|SymInt|float|int|bool|str"
_ARGUMENT = re.compile(rf"({_TYPES})(\?)? (\w+)(?:=(.+))?")


class SchemaArgument(NamedTuple):
    name: str
    type: str
    optional: bool

    @property
    def is_array(self) -> bool:
        return self.type.startswith("Tensor")

    @property
    def is_written(self) -> bool:
        """Changed in place: Tensor(a!)."""
        return "!" in self.type


class Schema(NamedTuple):
    """`(Tensor x, Tensor? weight, float eps) -> (Tensor y, Tensor scale)`"""

    arguments: tuple[SchemaArgument, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Schema:
        match = re.fullmatch(r"\((.*)\) -> (?:\((.*)\)|(Tensor \w+|Tensor))", text.strip())
        if match is None:
            raise ArgumentError(f"cannot read the schema {text!r}")
        arguments = []
        for part in filter(None, (match[1] or "").split(", ")):
            found = _ARGUMENT.fullmatch(part)
            if found is None:
                raise ArgumentError(f"cannot read the argument {part!r} of the schema {text!r}")
            arguments.append(SchemaArgument(found[3], found[1], bool(found[2])))
        outputs = [part.split()[-1] for part in filter(None, (match[2] or match[3] or "").split(", "))]
        return Schema(tuple(arguments), tuple(outputs))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments)
