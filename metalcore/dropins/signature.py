"""The signature that MLX writes around the body given to `mx.fast.metal_kernel`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

CONSTANT_ARRAY_LIMIT = 8  # inputs with fewer elements are passed in the constant address space

# dtype name -> MSL spelling, as MLX spells it
MSL_TYPES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "float16_t",
    "bfloat16": "bfloat16_t",
    "float32": "float",
    "complex64": "complex64_t",
}

# Every thread attribute that becomes a parameter when the body names it.
THREAD_ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": "uint",
    "dispatch_simdgroups_per_threadgroup": "uint",
    "dispatch_threads_per_threadgroup": "uint3",
    "grid_origin": "uint3",
    "grid_size": "uint3",
    "quadgroup_index_in_threadgroup": "uint",
    "quadgroups_per_threadgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_execution_width": "uint",
    "thread_index_in_quadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}


@dataclass(frozen=True)
class Input:
    """What the signature depends on in one input."""

    dtype: str
    small: bool  # fewer than 8 elements
    scalar: bool  # no dimensions


@dataclass(frozen=True)
class Shapes:
    """Which of name_shape, name_strides and name_ndim the body mentions for one input."""

    shape: bool
    strides: bool
    ndim: bool


TemplateValue = bool | int | str  # a str is a dtype name


@dataclass(frozen=True)
class Signature:
    """The generated kernel: its name and its text, header and body included."""

    name: str
    text: str  # what verbose=True prints
    marked: str  # the same with #line marks, so that errors name the user's own lines


def mentioned_shapes(name: str, source: str) -> Shapes:
    """MLX looks for the bare text, and so does this."""
    return Shapes(f"{name}_shape" in source, f"{name}_strides" in source, f"{name}_ndim" in source)


def write(
    name: str,
    header: str,
    source: str,
    inputs: Sequence[tuple[str, Input, Shapes]],
    outputs: Sequence[tuple[str, str]],
    template: Sequence[tuple[str, TemplateValue]],
    atomic_outputs: bool,
) -> Signature:
    """Write the kernel for inputs of these types, outputs of these dtypes and these template arguments."""
    kernel_name = _kernel_name(name, inputs, outputs, template)
    parameters = _parameters(inputs, outputs, source, atomic_outputs)
    opening = f"{_template_line(template)}[[kernel]] void {kernel_name}(\n" + ",\n".join(parameters) + ") {\n"
    closing = "\n}\n"
    if template:
        instance = f"{kernel_name}<{', '.join(_spelling(value) for _, value in template)}>"
        closing += f'\ntemplate [[host_name("{kernel_name}")]] [[kernel]] decltype({instance}) {instance};\n'
    label = re.sub(r"[^\w .-]", "_", name)
    marked = (
        f'#line 1 "<{label} header>"\n{header}\n#line 1 "<{label} signature>"\n{opening}'
        f'#line 1 "<{label} source>"\n{source}\n#line 1 "<{label} instance>"\n{closing}'
    )
    return Signature(kernel_name, header + opening + source + closing, marked)


def _kernel_name(
    name: str,
    inputs: Sequence[tuple[str, Input, Shapes]],
    outputs: Sequence[tuple[str, str]],
    template: Sequence[tuple[str, TemplateValue]],
) -> str:
    parts = ["custom_kernel", name]
    if template:
        parts += ["", *(_spelling(value) for _, value in template)]
    for _, info, _ in inputs:
        parts.append(MSL_TYPES[info.dtype] + ("s" if info.scalar else "c" if info.small else ""))
    parts += [MSL_TYPES[dtype] for _, dtype in outputs]
    return re.sub(r"\W", "_", "_".join(parts))


def _template_line(template: Sequence[tuple[str, TemplateValue]]) -> str:
    if not template:
        return ""
    kinds = {bool: "bool", int: "int", str: "typename"}
    return "template <" + ", ".join(f"{kinds[type(value)]} {name}" for name, value in template) + ">\n"


def _spelling(value: TemplateValue) -> str:
    return MSL_TYPES[value] if isinstance(value, str) else str(int(value))


def _parameters(
    inputs: Sequence[tuple[str, Input, Shapes]],
    outputs: Sequence[tuple[str, str]],
    source: str,
    atomic_outputs: bool,
) -> list[str]:
    buffers: list[str] = []
    for name, info, shapes in inputs:
        space = "constant" if info.small else "device"
        buffers.append(f"const {space} {MSL_TYPES[info.dtype]}{'&' if info.scalar else '*'} {name}")
        if info.scalar:
            continue
        if shapes.shape:
            buffers.append(f"const constant int* {name}_shape")
        if shapes.strides:
            buffers.append(f"const constant int64_t* {name}_strides")
        if shapes.ndim:
            buffers.append(f"const constant int& {name}_ndim")
    for name, dtype in outputs:
        spelled = f"atomic<{MSL_TYPES[dtype]}>" if atomic_outputs else MSL_TYPES[dtype]
        buffers.append(f"device {spelled}* {name}")
    lines = [f"  {buffer} [[buffer({index})]]" for index, buffer in enumerate(buffers)]
    lines += [f"  {kind} {name} [[{name}]]" for name, kind in THREAD_ATTRIBUTES.items() if name in source]
    return lines
