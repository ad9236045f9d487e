"""The text that each framework compiles, made from the one Metal file: constants and the instantiation are written out.

`torch.mps.compile_shader` and `mx.fast.metal_kernel` have no function constants, and neither has an include path.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import FOLDER, Parameter, Variant, _msl, read

_CONSTANT = re.compile(r"constant\s+(\w+)\s+(\w+)\s*\[\[function_constant\((\d+)\)\]\];")


def engine_text(variant: Variant) -> str:
    """For the engine: the file itself is included, so that errors name its lines."""
    return f'#include "{variant.kernel.file}.metal"\n{variant.instantiation}'


def shader_text(variant: Variant) -> str:
    """For torch.mps.compile_shader: one entry point, `variant.entry_point`."""
    return with_constants(read(variant.kernel.file), variant) + variant.instantiation


class KernelText(NamedTuple):
    """What mx.fast.metal_kernel is made from."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str


def metal_kernel_text(variant: Variant) -> KernelText:
    """For mx.fast.metal_kernel, which writes the signature itself: the kernel is a function that the body calls."""
    found = variant.kernel.parameters
    header = re.sub(r"\[\[[^\]]*\]\]\s*", "", with_constants(read(variant.kernel.file), variant))
    call = ", ".join(_passed(p) for p in found)
    return KernelText(
        variant.key,
        tuple(p.name for p in found if p.kind in ("input", "value")),
        tuple(p.name for p in found if p.kind == "output"),
        f"{variant.expression}({call});\n",
        header,
    )


def _passed(parameter: Parameter) -> str:
    if parameter.kind != "thread":
        return parameter.name
    is_position = parameter.attribute.endswith(("in_grid", "per_grid")) or parameter.attribute in _VECTORS
    return f"{parameter.attribute}.x" if is_position and parameter.type == "uint" else parameter.attribute


# Attributes that are three-dimensional in Metal, beside those of the grid.
_VECTORS = ("thread_position_in_threadgroup", "threads_per_threadgroup", "dispatch_threads_per_threadgroup")


def with_constants(text: str, variant: Variant) -> str:
    """Function constants as constants of the program; those that the kernel does not use are false or zero."""
    values = dict(zip(variant.kernel.constants, variant.constants, strict=True))

    def written(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        value = values.pop(name, False if kind == "bool" else 0)
        return f"constant constexpr {kind} {name} = {_msl(value)};"

    out = _CONSTANT.sub(written, text)
    if values:
        raise ArgumentError(f"kernels/{variant.kernel.file}.metal declares no function constant {', '.join(values)}")
    return out


def include_dirs() -> tuple[str, ...]:
    return (str(FOLDER),)
