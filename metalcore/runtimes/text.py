"""The text that each framework compiles, made from the one Metal file: constants and the instantiation are written out.

`torch.mps.compile_shader` and `mx.fast.metal_kernel` have no function constants, and neither has an include path.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import FOLDER, MSL_TYPES, Parameter, Variant, _msl, head, read

_KERNEL = re.compile(r"(?:template\s*<([^<>]*)>\s*)?\[\[kernel\]\]\s+void\s+(\w+)\s*\(")
_DTYPES = {msl: dtype for dtype, msl in MSL_TYPES.items()}
# Attributes that are three-dimensional in Metal, beside those of the grid.
_VECTORS = ("thread_position_in_threadgroup", "threads_per_threadgroup", "dispatch_threads_per_threadgroup")
_CONSTANT = re.compile(r"constant\s+(\w+)\s+(\w+)\s*\[\[function_constant\((\d+)\)\]\];")


WIDE_NAME = "METALCORE_WIDE"
WIDE = f"#define {WIDE_NAME} 1\n"


def engine_text(variant: Variant) -> str:
    """For the engine: the file itself is included, so that errors name its lines.

    A kernel may ask for memory early with `__builtin_prefetch`, which is no MSL, under `#ifdef METALCORE_ENGINE`, and
    for twice the sums where registers have 16 lanes, under `#ifdef METALCORE_WIDE`.
    """
    define = "#define METALCORE_ENGINE 1\n" if "METALCORE_ENGINE" in read(variant.kernel.file) else ""
    if WIDE_NAME in read(variant.kernel.file):
        from metalcore.engine.optimiser.llvm import vector_width  # llvmlite takes its time

        define += WIDE if vector_width() == 16 else ""
    return f'{define}#include "{variant.kernel.file}.metal"\n{variant.instantiation}'


DEVICE = "#define METALCORE_DEVICE 1\n"
"""In front of what a GPU's own compiler gets: there, loops over registers are unrolled."""


def is_own(function: Any) -> bool:
    """Whether this is one of the engine's drop-ins, as inside metalcore.emulate()."""
    return str(getattr(function, "__module__", "")).startswith("metalcore")


def shader_text(variant: Variant) -> str:
    """For torch.mps.compile_shader: one entry point, `variant.entry_point`."""
    return with_constants(read(variant.kernel.file), variant) + variant.instantiation


class KernelText(NamedTuple):
    """What mx.fast.metal_kernel is made from, and the template arguments of a call."""

    name: str  # with the constants: MLX keeps one library for each name
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str
    template: tuple[tuple[str, object], ...]  # (name, dtype or number)


def metal_kernel_text(variant: Variant) -> KernelText:
    """For mx.fast.metal_kernel, which writes the signature itself: the kernel's own body below lines that name its
    parameters. The body cannot stay a function that is called: Metal has threadgroup variables in kernels only.
    """
    kernel = variant.kernel
    found = kernel.parameters
    helpers, own = _split(with_constants(read(kernel.file), variant), kernel.name)
    lines: list[str] = []
    template: list[tuple[str, object]] = []
    for (kind, name), value in zip(own.template, variant.types, strict=True):
        if kind == "typename":
            template.append((name, _DTYPES[str(value)]))
        else:  # MLX has int and bool alone: the name gets its own type back
            template.append((f"{name}_value", value))
            lines.append(f"constexpr {kind} {name} = {name}_value;\n")
    lines += [_declared(p) for p in found if p.kind != "thread" or p.name != p.attribute]
    return KernelText(
        unique_key(variant),
        tuple(f"{p.name}_in" for p in found if p.kind in ("input", "value")),
        tuple(f"{p.name}_out" for p in found if p.kind == "output"),
        "".join(lines) + own.body,
        helpers,
        tuple(template),
    )


def _declared(parameter: Parameter) -> str:
    """A line that gives a parameter its own name and type: MLX writes int8_t where the kernel has char, which are two
    types, and looks for words like x_shape in the body."""
    kind, name, type_ = parameter.kind, parameter.name, parameter.type
    if kind == "input":
        return f"device const {type_}* {name} = (device const {type_}*){name}_in;\n"
    if kind == "output":
        return f"device {type_}* {name} = (device {type_}*){name}_out;\n"
    return f"const {type_} {name} = {name}_in;\n" if kind == "value" else f"{type_} {name} = {_passed(parameter)};\n"


def unique_key(variant: Variant) -> str:
    """The key with the function constants, as a word: rms_norm_forward_half_half_4_true."""
    return re.sub(r"\W", "m", "_".join([variant.key, *map(_msl, variant.constants)]))


def parameter_dtypes(variant: Variant) -> tuple[str, ...]:
    """The dtype that each buffer of the kernel holds, by its index; "" where it is no plain type (a struct)."""
    kernel = variant.kernel
    own = _split(read(kernel.file), kernel.name)[1].template
    known = {name: str(value) for (kind, name), value in zip(own, variant.types, strict=True) if kind == "typename"}
    buffers = [p for p in kernel.parameters if p.kind != "thread"]
    return tuple(_DTYPES.get(known.get(p.type, p.type), "") for p in buffers)


class _Own(NamedTuple):
    """One kernel, taken out of its file."""

    template: tuple[tuple[str, str], ...]  # (typename or a type, name)
    body: str


@cache
def _split(text: str, name: str) -> tuple[str, _Own]:
    """The text without its kernels, and the kernel of this name."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    helpers, own, at = [], None, 0
    for match in _KERNEL.finditer(bare):
        body = bare.index("{", head(bare, match[2])[1])
        end = _closing(bare, body)
        helpers.append(text[at : match.start()])
        at = end + 1
        if match[2] == name:
            given = [part.split() for part in (match[1] or "").split(",") if part.strip()]
            own = _Own(tuple((words[0], words[-1]) for words in given), text[body + 1 : end].lstrip("\n"))
    if own is None:
        raise ArgumentError(f"there is no '[[kernel]] void {name}(' in the source")
    return "".join(helpers) + text[at:], own


def _closing(text: str, opening: int) -> int:
    """Where the brace that opens here is closed."""
    depth = 0
    for match in re.compile("[{}]").finditer(text, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise ArgumentError("a brace is not closed in the source of a kernel")


def _passed(parameter: Parameter) -> str:
    """What MLX calls a thread attribute: positions and sizes have three parts."""
    is_position = parameter.attribute.endswith(("in_grid", "per_grid")) or parameter.attribute in _VECTORS
    parts = {"2": ".xy", "3": ""}.get(parameter.type[-1], ".x")
    return parameter.attribute + parts if is_position else parameter.attribute


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
