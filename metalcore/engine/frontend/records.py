"""The layout of a struct that a kernel takes, as clang lays it out: names, offsets and types of its members.

Asked for only where Python fills a struct member by member; one run of clang prints the layouts (`__mc_layout`), and
the text of that is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from metalcore.engine.frontend import compiler, constants, toolchain
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.entry import with_entry
from metalcore.engine.frontend.model import Unit
from metalcore.engine.frontend.unit import constant_prologue

SCALARS = {
    "float": ("float32", 4),
    "double": ("float64", 8),  # where float is read as double
    "_Float16": ("float16", 2),
    "__bf16": ("bfloat16", 2),
    "_Bool": ("bool", 1),
    "bool": ("bool", 1),
    "char": ("int8", 1),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "short": ("int16", 2),
    "unsigned short": ("uint16", 2),
    "int": ("int32", 4),
    "unsigned int": ("uint32", 4),
    "long": ("int64", 8),
    "unsigned long": ("uint64", 8),
    "long long": ("int64", 8),
    "unsigned long long": ("uint64", 8),
}
_TITLE = "*** Dumping AST Record Layout"
_LINE = re.compile(r" *(\d+)(:[\d-]+)? \| ( *)(.*)")
_SIZE = re.compile(r"\[sizeof=(\d+)")
_VECTOR = re.compile(r"struct metal::(packed_)?vec<([\w ]+), (\d)>")
_MATRIX = re.compile(r"struct metal::matrix<([\w ]+), (\d), (\d)>")
_ATOMIC = re.compile(r"struct metal::atomic<([\w ]+)>")
_BOUNDS = re.compile(r"((?:\[\d+\])+)$")
_QUALIFIERS = re.compile(r"^(?:const |volatile )+")


@dataclass(frozen=True)
class Type:
    """What one member is: a number, vector or matrix ("number"), or a "pointer", "record", "enum" or "other"."""

    kind: str
    text: str  # as clang prints it
    size: int  # bytes; 0: not known
    scalar: str = ""
    lanes: int = 1
    columns: int = 1
    is_const: bool = False  # pointer: to memory that is not written through it
    target: Type | None = None  # pointer: what it points to
    fields: tuple[Field, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> Type:
        """The type that `asdict` has taken apart."""
        target = Type.from_json(data["target"]) if data["target"] else None
        fields = tuple(
            Field(f["name"], f["offset"], tuple(f["counts"]), Type.from_json(f["type"])) for f in data["fields"]
        )
        return Type(**{**data, "target": target, "fields": fields})

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the cache."""
        return asdict(self)


@dataclass(frozen=True)
class Field:
    """A member of a struct; `counts` are the bounds of an array."""

    name: str
    offset: int
    counts: tuple[int, ...]
    type: Type


def record_of(unit: Unit, name: str, values: Mapping[int | str, object] | None, parameter: int) -> Type:
    """The type that a parameter of a kernel points to, with its members."""
    kernel = next(k for k in unit.kernels if k.host_name == name)
    asked = f"struct __mc_layout {{ ::__mc::parameter<__mc_kernel::type<{parameter}>>::element value; }};"
    text = with_entry(unit.text, kernel, f" {asked} static_assert(sizeof(__mc_layout) > 0);")
    text = constant_prologue(len(unit.slots), constants.initialisers(unit, values)) + text
    flags = toolchain.language_flags(unit.math_mode, True, unit.float_type)
    result = compiler.run(
        flags, text, False, ("-w", "-fdump-record-layouts-complete", "-fdump-record-layouts-canonical")
    )
    if result.code:
        raise compiler.translate(result.errors, Sources(unit.path, unit.source), text)
    return _Layouts(result.output).type_of_value()


class _Layouts:
    """All layouts of one run, by the name of the record."""

    def __init__(self, output: str) -> None:
        self._lines: dict[str, list[str]] = {}
        for part in output.split(_TITLE)[1:]:
            lines = part.strip("\n").splitlines()
            title = _LINE.match(lines[0])
            if title:
                self._lines[title[4].removesuffix(" (empty)")] = lines

    def type_of_value(self) -> Type:
        (field,) = self._fields("struct __mc_layout")
        return field.type

    def _size(self, record: str) -> int:
        found = next((m for line in self._lines.get(record, ()) if (m := _SIZE.search(line))), None)
        return int(found[1]) if found else 0

    def _fields(self, record: str) -> tuple[Field, ...]:
        return tuple(self._members(self._lines.get(record, [])))

    def _members(self, lines: list[str]) -> Iterator[Field]:
        """The members of one record, those of its bases and of members without a name among them."""
        shift = None
        for line in lines[1:]:
            match = _LINE.match(line)
            if match is None:
                continue
            depth = len(match[3])
            shift = depth if shift is None else shift
            if depth != shift:
                continue  # inside the member above, which has a layout of its own
            spelled, _, name = match[4].removesuffix(" (empty)").rpartition(" ")
            offset = int(match[1])
            if match[2]:
                yield Field(name, offset, (), Type("other", f"bit-field {spelled}", 0))
            elif (name == "(base)" or not name) and not spelled.startswith("union "):
                for field in self._fields(spelled):
                    yield Field(field.name, field.offset + offset, field.counts, field.type)
            else:
                bounds = _BOUNDS.search(spelled)
                counts = tuple(int(n) for n in re.findall(r"\d+", bounds[1])) if bounds else ()
                kind = self.type(spelled[: bounds.start()] if bounds else spelled)
                if len(kind.fields) == 1 and kind.fields[0].name == "__elems":  # metal::array
                    counts, kind = counts + kind.fields[0].counts, kind.fields[0].type
                yield Field(name, offset, counts, kind)

    def type(self, text: str) -> Type:
        """A type as clang prints it, without array bounds."""
        text = text.strip()
        pointer = re.match(r"(.*)\*(?:const|volatile|__\w+|\s)*$", text)
        if pointer:
            target = pointer[1].strip()
            return Type("pointer", text, 8, "pointer", is_const=_is_const(target), target=self._target(target))
        text = _QUALIFIERS.sub("", text)
        if text in SCALARS:
            scalar, size = SCALARS[text]
            return Type("number", text, size, scalar)
        if match := _ATOMIC.fullmatch(text):
            scalar, size = SCALARS[match[1]]
            return Type("number", text, size, scalar)
        if match := _VECTOR.fullmatch(text):
            scalar, size = SCALARS[match[2]]
            lanes = int(match[3])
            return Type("number", text, size * (lanes if match[1] or lanes != 3 else 4), scalar, lanes)
        if match := _MATRIX.fullmatch(text):
            scalar, size = SCALARS[match[1]]
            columns, rows = int(match[2]), int(match[3])
            return Type("number", text, columns * size * (4 if rows == 3 else rows), scalar, rows, columns)
        if text.startswith("enum "):
            return Type("enum", text, 0)
        if text.startswith(("struct ", "class ")) and text in self._lines:
            return Type("record", text, self._size(text), fields=self._fields(text))
        return Type("other", text, self._size(text))

    def _target(self, text: str) -> Type | None:
        """What a pointer leads to; members of a struct behind it are left out, since it may point to itself."""
        plain = re.sub(r"^(?:const |volatile |__global_device |__global |__local )+", "", text)
        if plain.startswith(("struct ", "class ", "union ")) and not plain.startswith("struct metal::"):
            return Type("record", plain, self._size(plain))
        return None if plain == "void" else self.type(plain)


def _is_const(target: str) -> bool:
    """Whether what a pointer leads to is const: `const __global float`, `__global float *const __global`."""
    _, star, last = target.rpartition("*")
    words = re.match(r"(?:(?:const|volatile|__\w+) ?)*", last.strip() if star else target)
    return words is not None and "const" in words[0].split()
