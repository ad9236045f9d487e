"""What a kernel's unoptimised IR may name: nothing that would be found outside of it, and no variable that is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalcore.engine.frontend.attributes import THREAD_ATTRIBUTES
from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.ir import DebugLines, metadata_of
from metalcore.errors import CompileError

_NAME = r'@"[^"]*"|@[-\w.$]+'
_DECLARED = re.compile(rf"^declare [^\n]*?({_NAME})\(", re.MULTILINE)
# What the headers declare and lockstep lowers. The hooks of sanitize mode are put in behind the front end.
_EXTERNAL = re.compile(
    r"@__mc_(?:arg|threadgroup_arg|fence|(?:threadgroup|simdgroup)_barrier|simd_\w+|simdgroup_(?:mma|load|store)_\w+"
    rf"|{'|'.join(THREAD_ATTRIBUTES)})"
)
_GLOBAL = re.compile(rf"^({_NAME}) = ([^\n]*?)\b(global|constant|alias|ifunc) ", re.MULTILINE)
_KEPT = re.compile(r"^@llvm\.(?:compiler\.)?used = [^\n]*$", re.MULTILINE)
_DYNAMIC = re.compile(r"^  \S+ = alloca (?:inalloca )?[^,\n]+, i\d+ %.*$", re.MULTILINE)
_ASM = re.compile(r"^  [^\n]*\bcall [^\n]*\basm (?:sideeffect |alignstack |unwind )*\"[^\n]*$", re.MULTILINE)
_READ = re.compile(r"^  \S+ = load ")
_INITIALISED = re.compile(
    r'^define internal [^\n]*@(?:__cxx_global_var_init[\w.]*|_GLOBAL__sub_I_\w*|"_GLOBAL__[^"]*")\(.*?^}', re.M | re.S
)
_DEBUG = re.compile(r"!dbg !(\d+)")


def check_symbols(ir: str, kernel: Kernel, sources: Sources) -> None:
    """Refuse functions and variables without a definition, variables that change, arrays of unknown length."""
    for message, line in _found(ir):
        raise _error(ir, line, message, kernel, sources)


def _found(ir: str) -> Iterator[tuple[str, str]]:
    """Each mistake with the line of IR that it shows in."""
    for name in _DECLARED.findall(ir):
        if not name.startswith("@llvm.") and not _EXTERNAL.fullmatch(name):
            yield f"the function '{_plain(name)}' is called and has no definition", _use(ir, name)
    kept = " ".join(_KEPT.findall(ir))
    started = "\n".join(match[0] for match in _INITIALISED.finditer(ir))
    for name, linkage, kind in _GLOBAL.findall(ir):
        if name.startswith("@llvm."):
            continue
        if kind in ("alias", "ifunc"):
            yield f"'{_plain(name)}' is an alias, which Metal does not have", ""
        elif "external " in linkage or "extern_weak" in linkage:
            yield f"the variable '{_plain(name)}' is used and has no definition", _use(ir, name)
        elif "thread_local" in linkage:
            yield f"'{_plain(name)}' is thread_local, which Metal does not have", _use(ir, name)
        elif kind == "global" and not _mentions(kept, name):
            # A constant whose initialiser LLVM has still to compute looks the same, and only that code stores to it.
            computed = "internal " in linkage and _mentions(started, name)
            uses = [line for line in _uses(ir, name) if not (computed and (_READ.match(line) or line in started))]
            if uses:
                yield mutable(_plain(name)), uses[0]
    if match := _DYNAMIC.search(ir):
        yield "an array whose length is not a constant is not supported in Metal", match[0]
    if match := _ASM.search(ir):
        yield "inline assembly is not supported", match[0]


def mutable(name: str) -> str:
    """The message for a variable that would outlive a thread."""
    return f"the variable '{name}' at file scope or static can be changed: Metal has only constant ones ('constant')"


def _mentions(text: str, name: str) -> bool:
    return re.search(re.escape(name) + r"(?![-\w.$])", text) is not None


def _uses(ir: str, name: str) -> Iterator[str]:
    for match in re.finditer(rf"^  [^\n]*{re.escape(name)}(?![-\w.$])[^\n]*$", ir, re.MULTILINE):
        yield match[0]


def _use(ir: str, name: str) -> str:
    return next(_uses(ir, name), "")


def _plain(symbol: str) -> str:
    """The name in the source: the last part of a mangled one."""
    name = symbol[1:].strip('"')
    parts: list[str] = []
    rest = re.sub(r"^_Z(?:TL|L)?N?(?:K|L|12_GLOBAL__N_1)*", "", name) if name.startswith("_Z") else ""
    while length := re.match(r"L?(\d+)", rest):
        end = length.end() + int(length[1])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    local = re.search(r"E(\d+)(\w+)$", name) if name.startswith("_ZZ") else None
    if local:
        return local[2][: int(local[1])]
    return parts[-1] if parts else name


def _error(ir: str, line: str, message: str, kernel: Kernel, sources: Sources) -> CompileError:
    debug = _DEBUG.search(line)
    if debug:
        frames = DebugLines(metadata_of(ir)).frames(int(debug[1]))
        place = next((frame for frame in frames if sources.line(frame.file, frame.line) is not None), None)
        if place is not None:
            written = sources.line(place.file, place.line) or ""
            return at(place.file, place.line, message, sources, (written, place.column))
    return at(kernel.file, kernel.line, message, sources)
