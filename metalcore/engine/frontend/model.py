"""A source made ready for clang, and what is known of its kernels before one is lowered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from metalcore.engine.model import FunctionConstant
from metalcore.launch.declaration import Requirement


@dataclass(frozen=True)
class ConstantSlot:
    """What `lower` needs to inject a function constant's value: its number in the text, its scalar and lanes."""

    marker: int
    scalar: str
    lanes: int


@dataclass
class Parameter:
    """A kernel parameter as written: its name, the expression of its index, its thread attribute."""

    name: str
    binding: str = ""  # "buffer", "threadgroup", or empty where the number is left to the compiler
    index: str = ""
    builtin: str = ""
    width: int = 0  # elements of a thread attribute's type; 0: not known
    enabled: str = ""  # the function constant that turns it on


@dataclass
class Kernel:
    """An entry point: the host's name for it, the C++ expression that names it, and its parameters."""

    host_name: str
    expression: str
    parameters: list[Parameter]
    marker: int
    file: str
    line: int
    end_line: int
    types: str = ""  # parameter list, where the instantiation spells it out
    requirements: list[Requirement] = field(default_factory=list)  # what it declares about its launches


class Searched(NamedTuple):
    """Where the files of a source were looked for."""

    roots: tuple[str, ...] = ()  # real paths of the folders that it may see
    torch: str | None = None  # torch's headers, the last place; "" where there is no torch; None: not asked for
    links: tuple[tuple[str, str], ...] = ()  # path and real path, where they differ: to #pragma once both are one file


@dataclass(frozen=True)
class Unit:
    """A source made ready for clang: nothing in it depends on which kernel is wanted."""

    functions: tuple[str, ...]
    constants: tuple[FunctionConstant, ...]
    includes: tuple[tuple[str, str], ...]
    text: str
    math_mode: str
    path: str
    source: str
    kernels: tuple[Kernel, ...]
    slots: tuple[ConstantSlot, ...]
    float_type: str = "float"  # what `float` is read as
    probes: tuple[tuple[str, str], ...] = ()  # other places that it depends on, and the digest or why nothing is there
    searched: Searched = field(default_factory=Searched)
    prelude: str = ""  # what the host puts in front of the source
    checked_ir: str = ""  # of the only kernel, where the check has made it; never kept on disk

    def to_json(self) -> str:
        """The unit as JSON text."""
        import json  # a cached launch needs none of this

        return json.dumps(asdict(replace(self, checked_ir="")))

    @staticmethod
    def from_json(text: str) -> Unit:
        """The unit that `to_json` wrote."""
        import json

        data: dict[str, Any] = json.loads(text)
        roots, torch, links = data["searched"]
        kernels = tuple(
            Kernel(
                **{
                    **kernel,
                    "parameters": [Parameter(**p) for p in kernel["parameters"]],
                    "requirements": [Requirement(*r) for r in kernel["requirements"]],
                }
            )
            for kernel in data["kernels"]
        )
        return Unit(
            functions=tuple(data["functions"]),
            constants=tuple(FunctionConstant(**c) for c in data["constants"]),
            includes=tuple((p, h) for p, h in data["includes"]),
            text=data["text"],
            math_mode=data["math_mode"],
            path=data["path"],
            source=data["source"],
            kernels=kernels,
            slots=tuple(ConstantSlot(**s) for s in data["slots"]),
            float_type=data["float_type"],
            probes=tuple((p, why) for p, why in data["probes"]),
            searched=Searched(roots=tuple(roots), torch=torch, links=tuple((path, real) for path, real in links)),
            prelude=data["prelude"],
        )
