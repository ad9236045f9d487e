"""Runs the preprocessor over the user's text, with headers that hold only Metal's macros."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metalcore.engine.frontend import toolchain
from metalcore.engine.frontend.diagnostics import Sources, compile_error
from metalcore.engine.frontend.tokens import unescape
from metalcore.errors import ArgumentError, CompileError

NO_PATH = "<metal>"  # how a source without a file is called in messages
_MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_FLAGS = (
    *("-E", "-x", "c++", "-std=c++17", "-undef", "-fno-digraphs", "-nostdsysteminc", "-nobuiltininc"),
    *("-triple", "aarch64-unknown-linux-gnu", "-fno-caret-diagnostics", "-w", "-ferror-limit", "20"),
    *("-D__clang__=1", "-D__METAL_MACOS__=1", "-D__METAL_OSX__=1", "-D__AIR64__=1", "-D__LITTLE_ENDIAN__=1"),
)


@dataclass(frozen=True)
class Preprocessed:
    """The text with every macro expanded and line markers, and the files that it was made of."""

    text: str
    includes: tuple[tuple[str, str], ...]
    sources: Sources


def preprocess(
    source: str,
    path: str | None,
    include_dirs: Sequence[str],
    defines: Mapping[str, object],
    math_mode: str,
    float_type: str = "float",
) -> Preprocessed:
    """Expand includes and macros of *source*.

    Example: `preprocess("kernel void f() {}", None, (), {}, "safe").text` ends with that line.
    """
    if not isinstance(source, str):
        raise ArgumentError(f"the Metal source must be text, not {type(source).__name__}")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"the Metal source is not text: {error}") from None
    name = path or NO_PATH
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    sources = Sources(name, source)
    folders = [os.fspath(folder) for folder in include_dirs]
    if path:
        folders.insert(0, os.path.dirname(os.path.abspath(path)))
    folders.append(str(toolchain.STUBS))
    torch = _torch_headers()
    if torch:
        folders.append(torch)
    flags = [*_FLAGS, *(f"-I{folder}" for folder in folders), "-include", str(toolchain.STUBS / "metal_stdlib")]
    if math_mode == "fast":
        flags += ["-D__FAST_MATH__=1", "-D__METAL_MAYBE_FAST_MATH__=1"]
    if float_type == "double":
        flags.append(toolchain.DOUBLE)
    flags += [_define(key, value) for key, value in defines.items()]
    result = toolchain.clang(flags, f'# 1 "{quoted}"\n{source}\n')
    if result.code != 0:
        raise compile_error(result.errors, sources)
    # What stands before the source are our own macros.
    text = result.output[max(result.output.find(f'\n# 1 "{quoted}"') + 1, 0) :]
    return Preprocessed(text, _includes(text, name), sources)


def _define(name: str, value: object) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ArgumentError(f"a macro in defines has the name {name!r}, which is no identifier")
    if value is None:
        return f"-D{name}="
    return f"-D{name}={int(value) if isinstance(value, bool) else value}"


def _torch_headers() -> str | None:
    """The include folder of the installed torch, found without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.join(os.path.dirname(spec.origin), "include")
    return folder if os.path.isdir(folder) else None


def _includes(text: str, main: str) -> tuple[tuple[str, str], ...]:
    """Path and hash of each file of the user that the preprocessor read; our own are in the toolchain's fingerprint."""
    files: list[tuple[str, str]] = []
    for raw in dict.fromkeys(_MARKER.findall(text)):
        name = unescape(raw)
        if name == main or name.startswith("<") or name.startswith(str(toolchain.INCLUDE)):
            continue
        if not os.path.isfile(name):
            continue  # a #line of the source may name anything
        with open(name, "rb") as file:
            files.append((os.path.abspath(name), hashlib.sha256(file.read()).hexdigest()))
    return tuple(files)
