"""The entry point around a kernel, and the reading back of its signature from the IR."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metalcore.engine.frontend.model import Kernel
from metalcore.engine.model import SCALARS, SPACES, Argument

# In the order of the enum in include/entry.h.
KINDS = ("buffer", "value", "threadgroup", "builtin", "end")
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
_ROW = re.compile(r'%"?struct\.__mc::info"? \{ ((?:i32 \d+, ){8})ptr (@"(?:[^"]*)"|@[\w.$]+) \}')
_SYMBOL = r'(@"[^"]*"|@[\w.$]+)'
_GLOBAL = re.compile(rf"^{_SYMBOL} = .*$", re.MULTILINE)
_RETURNED = re.compile(
    rf"^define [^\n]*@(__mc_(?:describe(?:_\d+)?|constant_\d+))\([^\n]*\n(?:(?!}})[^\n]*\n)*?  ret ptr {_SYMBOL}",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Row:
    """One row of a table in include/entry.h."""

    kind: str
    slot: int
    size: int
    align: int
    writable: bool
    scalar: str
    lanes: int
    space: str
    type: str


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


def constant_text(marker: int, name: str, index: str) -> str:
    """C++ that makes clang tell the type and index of a function constant."""
    info = f"::__mc::constant_info<decltype({name}), long({index})>"
    return f'extern "C" [[clang::sycl_external]] const void* __mc_constant_{marker}() {{ return &{info}::described; }}'


class Tables:
    """The tables of a module, found in one walk through it."""

    def __init__(self, ir: str) -> None:
        self._globals = {match[1]: match[0] for match in _GLOBAL.finditer(ir)}
        self._returned = dict(_RETURNED.findall(ir))

    def rows(self, function: str) -> list[Row]:
        """The rows of the table whose address *function* returns."""
        line = self._globals.get(self._returned.get(function, ""), "")
        rows = []
        for numbers, text in _ROW.findall(line):
            values = [int(n) for n in re.findall(r"i32 (\d+)", numbers)]
            kind, slot, size, align, writable, scalar, lanes, space = values
            if KINDS[kind] == "end":
                continue
            spelled = _type_name(_text(self._globals.get(text, "")), SCALARS[scalar], lanes)
            rows.append(
                Row(KINDS[kind], slot, size, align, bool(writable), SCALARS[scalar], lanes, SPACES[space], spelled)
            )
        return rows


def arguments(ir: str, kernel: Kernel) -> tuple[Argument, ...]:
    """The kernel's parameters as clang sees them."""
    rows = Tables(ir).rows("__mc_describe")
    enabled = _flags(ir, len(rows))
    found = []
    for parameter, row, on in zip(kernel.parameters, rows, enabled, strict=True):
        builtin = row.kind == "builtin"
        found.append(
            Argument(
                name=parameter.name,
                index=-1 if builtin else row.slot,
                kind=row.kind,
                type=row.type,
                element_size=row.size,
                element_align=row.align,
                writable=row.writable,
                scalar="struct" if row.scalar == "void" else row.scalar,
                lanes=row.lanes,
                space=row.space,
                enabled=on,
                attribute=parameter.builtin,
            )
        )
    return tuple(found)


def max_threads(ir: str, entry: str = "__mc_entry") -> int | None:
    """The value of [[max_total_threads_per_threadgroup(n)]] of the kernel that the entry point calls."""
    body = re.search(rf"^define [^\n]*@{entry}\(.*?^}}", ir, re.MULTILINE | re.DOTALL)
    notes = re.search(r"^@llvm\.global\.annotations = .*$", ir, re.MULTILINE)
    if body is None or notes is None:
        return None
    for function, _, args in re.findall(
        rf"{{ ptr {_SYMBOL}, ptr {_SYMBOL}, ptr [^,]+, i32 \d+, ptr {_SYMBOL} }}", notes[0]
    ):
        if f" {function}(" in body[0]:
            value = re.search(r"\{ i32 (\d+) \}", _global(ir, args))
            return int(value[1]) if value else None
    return None


def strip(ir: str) -> str:
    """The IR without what only described the kernel, and with linkage and attributes that the next stages want."""
    tables = {s for f in ("__mc_describe", "__mc_describe_enabled") if (s := _returned(ir, f))}
    ir = re.sub(r"^define [^\n]*@__mc_describe(?:_enabled)?\(.*?^}\n", "", ir, flags=re.MULTILINE | re.DOTALL)
    ir = re.sub(r"^@llvm\.global\.annotations = .*\n", "", ir, flags=re.MULTILINE)
    for symbol in tables:
        ir = re.sub(rf"^{re.escape(symbol)} = .*\n", "", ir, flags=re.MULTILINE)
    ir = re.sub(r"^\$.* = comdat any\n", "", ir, flags=re.MULTILINE)
    ir = re.sub(r"^(define )linkonce_odr (.*?) comdat(?:\([^)]*\))?(?= )", r"\1internal \2", ir, flags=re.MULTILINE)
    ir = re.sub(r"^(define )(?:linkonce_odr|weak_odr) ", r"\1internal ", ir, flags=re.MULTILINE)
    ir = re.sub(
        r"^(@.* = )(?:linkonce_odr|weak_odr) (.*), comdat(?:\([^)]*\))?", r"\1internal \2", ir, flags=re.MULTILINE
    )
    # A reference promises no more than a pointer does: nothing may be read before the kernel reads it.
    # SYCL promises that nothing recurses; Metal code may call itself in tail position.
    return re.sub(r" dereferenceable\(\d+\)|, !noundef !\d+| norecurse\b", "", ir)


def _returned(ir: str, function: str) -> str | None:
    match = re.search(rf"^define [^\n]*@{function}\(.*?^  ret ptr {_SYMBOL}", ir, re.MULTILINE | re.DOTALL)
    return match[1] if match else None


def _global(ir: str, symbol: str) -> str:
    match = re.search(rf"^{re.escape(symbol)} = .*$", ir, re.MULTILINE)
    return match[0] if match else ""


def _text(line: str) -> str:
    """The text that a global is."""
    match = re.search(r'c"(.*?)\\00"', line)
    return match[1] if match else ""


def _type_name(pretty: str, scalar: str, lanes: int) -> str:
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


def _flags(ir: str, count: int) -> list[bool]:
    symbol = _returned(ir, "__mc_describe_enabled")
    line = _global(ir, symbol) if symbol else ""
    text = re.search(r'c"((?:[^"\\]|\\..)*)"', line)
    if text:
        values = [t == "\\01" for t in re.findall(r"\\..|.", text[1])]
        return values[:count]
    return [f == "1" for f in re.findall(r"i8 ([01])", line)][:count]
