"""A kernel of the library as ops name it, its variants, and what a launch takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from metalcore.errors import ArgumentError, IndexRangeError

FOLDER = Path(__file__).resolve().parent.parent / "kernels"
MSL_TYPES = {
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "char",
    "uint8": "uchar",
    "uint32": "uint",
    "bool": "bool",
}


Items = tuple[Any, ...]
"""What a launch takes several of: types or numbers for the template, function constants, buffers in their order."""
Arguments = Mapping[str, Any]
"""What fills the buffers of a kernel, by the names of its parameters in the Metal file."""
Size = tuple[int, ...]
"""Threads or threadgroups in one to three dimensions."""


class Out(NamedTuple):
    """An output that the launch allocates: its memory is not initialised."""

    shape: tuple[int, ...]
    dtype: str


class Parameter(NamedTuple):
    """One parameter of a kernel, as it is written in the Metal file."""

    name: str
    kind: str  # "input", "output", "inout", "value" (constant T&) or "thread"
    type: str  # of the element: T, float, long, uint, uint3 ...
    attribute: str  # buffer(0), thread_position_in_grid ...


@dataclass(frozen=True, eq=False)
class Kernel:
    """`name` in kernels/`file`.metal, a template over types and numbers, with the function constants it uses.

    Parameters keep to what both frameworks can pass: `device const T*` (input), `device T*` (output, or written in
    place), `constant long&` and `constant float&` (a Python int or float).
    """

    file: str
    name: str
    constants: tuple[str, ...] = ()

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Buffers in the order of their index, then thread attributes."""
        return parameters(read(self.file), self.name)

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        """The names of the parameters that a launch fills, in the order of their index."""
        return tuple(p.name for p in self.parameters if p.kind != "thread")

    def ordered(self, arguments: Arguments) -> Items:
        """The arguments of a launch in the order of the buffers; an error where a name is missing or not known."""
        try:
            found = tuple([arguments[name] for name in self.buffers])
        except (KeyError, TypeError):
            found = ()
        if len(found) != len(arguments):
            self._refuse(arguments)
        return found

    def _refuse(self, arguments: object) -> None:
        if not isinstance(arguments, Mapping):
            kind = type(arguments).__name__
            raise ArgumentError(f"kernel '{self.name}' takes its arguments by name, in a dict, not in a {kind}")
        wrong = {
            "without": [name for name in self.buffers if name not in arguments],
            "with the unknown": [name for name in arguments if name not in self.buffers],
        }
        words = " and ".join(f"{word} {', '.join(names)}" for word, names in wrong.items() if names)
        raise ArgumentError(
            f"kernel '{self.name}' is launched {words}; kernels/{self.file}.metal names {', '.join(self.buffers)}"
        )

    def variant(self, types: tuple[object, ...], constants: tuple[object, ...]) -> Variant:
        """One instantiation: dtypes or numbers for the template, values for the function constants."""
        if len(constants) != len(self.constants):
            raise ArgumentError(f"kernel '{self.name}' has the constants {self.constants}, not {constants}")
        return Variant(self, tuple(MSL_TYPES.get(t, t) if isinstance(t, str) else t for t in types), constants)


@dataclass(frozen=True)
class Variant:
    """A kernel with its template arguments and constants; `key` names it in logs, dumps and benchmarks."""

    kernel: Kernel
    types: tuple[object, ...]
    constants: tuple[object, ...]

    @property
    def key(self) -> str:
        """For example rms_norm_forward_half_float_4."""
        return "_".join([self.kernel.name, *map(str, self.types)])

    @property
    def label(self) -> str:
        """The key with the function constants."""
        given = ", ".join(f"{n}={_msl(v)}" for n, v in zip(self.kernel.constants, self.constants, strict=True))
        return f"{self.key}[{given}]" if given else self.key

    @property
    def expression(self) -> str:
        """The template's name with its arguments, in MSL."""
        return f"{self.kernel.name}<{', '.join(map(_msl, self.types))}>" if self.types else self.kernel.name

    @property
    def instantiation(self) -> str:
        """The line that makes the variant an entry point named `key`; empty for a kernel that is no template."""
        if not self.types:
            return ""
        return f'template [[host_name("{self.key}")]] [[kernel]] decltype({self.expression}) {self.expression};\n'

    @property
    def entry_point(self) -> str:
        return self.key if self.types else self.kernel.name


def _msl(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def read(file: str) -> str:
    """kernels/`file`.metal with the headers of that folder put in where they are included."""
    return _flatten(f"{file}.metal", set())


def _flatten(name: str, seen: set[str]) -> str:
    if name in seen:
        return ""
    seen.add(name)
    lines = []
    for line in (FOLDER / name).read_text().splitlines():
        match = re.fullmatch(r'#include "([^"]+)"\s*', line)
        if match:
            lines.append(_flatten(match[1], seen))
        elif line.strip() != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


def head(text: str, name: str) -> tuple[int, int]:
    """Where the parameters of a kernel stand in the text: after its opening bracket, before its closing one."""
    match = re.search(rf"\[\[kernel\]\]\s+void\s+{name}\s*\(", text)
    if match is None:
        raise ArgumentError(f"there is no '[[kernel]] void {name}(' in the source")
    depth, at = 1, match.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return match.end(), at - 1


def parameters(text: str, name: str) -> tuple[Parameter, ...]:
    """Parameters of a kernel, which the house style writes one a line."""
    begin, end = head(text, name)
    found = []
    for line in filter(None, (part.strip() for part in text[begin:end].split("\n"))):
        match = re.fullmatch(r"(.+?)\s+(\w+)\s*\[\[(\w+(?:\(\d+\))?)\]\],?", line)
        if match is None:
            raise ArgumentError(f"kernel '{name}': cannot read the parameter {line!r}: write one a line")
        found.append(_parameter(*match.groups()))
    return tuple(found)


def _parameter(declared: str, name: str, attribute: str) -> Parameter:
    words = declared.replace("*", " * ").replace("&", " & ").split()
    element = next(w for w in words if w not in ("device", "const", "constant", "*", "&"))
    if not attribute.startswith("buffer"):
        return Parameter(name, "thread", element, attribute)
    if "constant" in words:
        return Parameter(name, "value", element, attribute)
    return Parameter(name, "input" if "const" in words else "output", element, attribute)


class Launch(NamedTuple):
    """What a fake runtime or a dump notes of a launch."""

    variant: Variant
    arguments: Items
    groups: Size
    group_size: Size


def any_set(flags: Any) -> bool:
    """Whether a kernel set one of these, for a plan that goes on by what it found. A GPU is waited for."""
    return bool(flags.any())


def raise_info(info: Any, explain: Callable[[int, int], str], error: type[Exception]) -> None:
    """Raise for the first matrix of a batch whose factorisation failed: `info` holds 0 where it did not."""
    if not info.any():
        return
    for position, value in enumerate(info.reshape(-1).tolist()):
        if value:
            raise error(explain(position, value))


def raise_first(errors: Any, explain: Callable[[int, int], str]) -> None:
    """Raise the first error that a kernel noted: rows of {1 or 0, position, value} in an int64 array."""
    for is_wrong, position, value in errors.tolist():
        if is_wrong:
            raise IndexRangeError(explain(position, value))
