"""The entry point around a kernel, and MSL's names of types that clang spells."""

from __future__ import annotations

import re

from metalcore.engine.frontend.model import Kernel
from metalcore.engine.frontend.tokens import escape

MSL_NAMES = {
    "bool": "bool",
    "float32": "float",
    "float64": "float",  # read as double: the source says float all the same
    "float16": "half",
    "bfloat16": "bfloat",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "void": "void",
}
_LIBRARY_TYPES = (
    (re.compile(r"\bmetal::"), ""),
    (re.compile(r"\b_Float16\b"), "half"),
    (re.compile(r"\b__bf16\b"), "bfloat"),
    (re.compile(r"\bdouble\b"), "float"),
    (re.compile(r"\bmatrix<(\w+), (\d), (\d)>"), r"\1\2x\3"),
    (re.compile(r"__attribute__\(\(opencl_global\)\)|__global\b"), "device"),
)
_BUILTIN = re.compile(
    r"(?:packed_)?vec<.*>|(?:unsigned |signed )?(?:bool|char|short|int|long|long long)|float|half|bfloat|void"
)


def entry_text(kernel: Kernel) -> str:
    """C++ that stands in for the kernel's marker: the function `__mc_entry` and the tables that describe it."""
    parameters = kernel.parameters
    indices = ", ".join(f"({p.index})" if p.index else "-1" for p in parameters)
    enabled = ", ".join(f"bool({p.enabled})" if p.enabled else "true" for p in parameters)
    arguments = ", ".join(
        f"::__mc::builtin<__mc_kernel::type<{i}>, ::__mc_{p.builtin}>()" if p.builtin else f"__mc_kernel::get<{i}>()"
        for i, p in enumerate(parameters)
    )
    function = f"void (*)({kernel.types})" if kernel.types else f"decltype(&{kernel.expression})"
    call = f"static_cast<__mc_function>(&{kernel.expression})" if kernel.types else kernel.expression
    external = 'extern "C" [[clang::sycl_external]]'
    return " ".join(
        (
            f"struct __mc_request {{ static constexpr int index[] = {{{indices}{', ' if indices else ''}-1}}; }};",
            f"__mc_constant bool __mc_enabled[] = {{{enabled}{', ' if enabled else ''}true}};",
            f"using __mc_function = {function};",
            "using __mc_kernel = ::__mc::kernel<__mc_request, __mc_function>;",
            f"{external} void __mc_entry() {{ {call}({arguments}); }}",
            f"{external} const void* __mc_describe() {{ return &__mc_kernel::described; }}",
            f"{external} const void* __mc_describe_enabled() {{ return (const void*)__mc_enabled; }}",
        )
    )


def with_entry(text: str, kernel: Kernel, more: str = "") -> str:
    """A unit's text with the entry point, and more C++ behind it, in the place of the kernel's marker.

    It has line markers, so that clang's messages about it name the kernel's own line.
    """
    file = escape(kernel.file)
    placed = f'\n# {kernel.line} "{file}"\n{entry_text(kernel)}\n# {kernel.end_line} "{file}"\n'
    return text.replace(f"/*__mc:k{kernel.marker}*/", placed + more)


def constant_text(marker: int, name: str, index: str) -> str:
    """C++ that makes clang tell the type and index of a function constant."""
    info = f"::__mc::constant_info<decltype({name}), long({index})>"
    return f'extern "C" [[clang::sycl_external]] const void* __mc_constant_{marker}() {{ return &{info}::described; }}'


def type_name(pretty: str, scalar: str, lanes: int) -> str:
    """MSL's spelling of a type that clang printed inside `name() [T = ...]`."""
    match = re.search(r"\[T = (.*)\]$", pretty)
    spelled = match[1] if match else pretty
    for pattern, name in _LIBRARY_TYPES:
        spelled = pattern.sub(name, spelled)
    if scalar not in MSL_NAMES or spelled.endswith("]"):
        return spelled
    if spelled.startswith("atomic<"):
        return f"atomic<{MSL_NAMES[scalar]}>"
    if _BUILTIN.fullmatch(spelled):
        return ("packed_" if "packed_vec<" in spelled else "") + MSL_NAMES[scalar] + (str(lanes) if lanes > 1 else "")
    return spelled  # an enumeration
