"""Runs the clang that the ziglang wheel brings: where it is, its flags, and its precompiled header."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from metalcore.engine.locks import locks
from metalcore.engine.process import Result, run_limited, scratch_folder
from metalcore.engine.store.cache import disk_cache
from metalcore.engine.store.identity import key_of
from metalcore.errors import MetalcoreError

INCLUDE = Path(__file__).resolve().parent.parent / "include"
STUBS = INCLUDE / "stubs"
MACROS = INCLUDE / "metal_config.h"  # both worlds of headers include it
MATH_MODES = ("safe", "relaxed", "fast")
FLOAT_TYPES = ("float", "double")
LARGEST_OUTPUT = 2_000_000_000  # bytes
DOUBLE = "-DMETALCORE_DOUBLE=1"  # float is read as double: docs/design/retype.md

# The language of the rewritten text. The triple only shapes the scalar IR; aarch64 leaves neither vectors nor casts.
LANGUAGE = (
    *(
        "-x",
        "c++",
        "-std=c++23",
        "-fsycl-is-device",
        "-fdeclspec",
        "-fno-digraphs",
        "-fno-threadsafe-statics",
        "-fno-rtti",
    ),
    *("-triple", "aarch64-unknown-linux-gnu", "-aux-triple", "aarch64-unknown-linux-gnu"),
    *("-ffloat16-excess-precision=none", "-fbfloat16-excess-precision=none"),
    # Kernels reinterpret pointers; an endless loop must stay one, and so must an access to null.
    *("-relaxed-aliasing", "-fno-finite-loops", "-fno-delete-null-pointer-checks", "-nostdsysteminc", "-nobuiltininc"),
    *("-fno-gnu-inline-asm", "-disable-pragma-debug-crash"),
)
# What each math mode lets the compiler do; docs/design/math.md says what that means for results.
MATH_FLAGS = {
    "safe": ("-ffp-contract=on", "-D__MC_MATH_MODE__=0"),
    "relaxed": (
        *("-ffp-contract=fast", "-mreassociate", "-fno-signed-zeros", "-freciprocal-math"),
        "-D__MC_MATH_MODE__=1",
    ),
    "fast": ("-ffp-contract=fast", "-ffast-math", "-D__MC_MATH_MODE__=2"),
}


@functools.lru_cache(maxsize=1)
def zig() -> str:
    """Path of the zig binary, which carries clang."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise MetalcoreError("the ziglang package, which brings the compiler, is not installed")
    folder = os.path.dirname(spec.origin)
    path = os.path.join(folder, "zig.exe" if os.name == "nt" else "zig")
    if not os.path.exists(path):
        raise MetalcoreError(f"the ziglang package has no compiler at {path}")
    return path


@functools.lru_cache(maxsize=1)
def own_headers() -> tuple[str, ...]:
    """Every header of the engine."""
    return tuple(str(path) for path in sorted(INCLUDE.rglob("*")) if path.is_file())


@functools.lru_cache(maxsize=1)
def stub_headers() -> tuple[str, ...]:
    """The headers of the engine that a source may include."""
    return tuple(path for path in own_headers() if path == str(MACROS) or Path(path).is_relative_to(STUBS))


def clang(
    arguments: Sequence[str],
    text: str,
    *,
    files: Mapping[str, bytes] | None = None,
    names: Mapping[str, str] | None = None,
    own: Sequence[str] | None = None,
    most: int = LARGEST_OUTPUT,
    limit: str = "the compiler's output is larger than 2 GB",
) -> Result:
    """Run `clang -cc1` with *text* on its standard input.

    It sees the engine's headers, or those of them in *own*, its precompiled header where *arguments* name one, and
    *files* under *names*; nothing else of this machine exists for it. More than *most* bytes of output are a
    CompileError, which says *limit*.
    """
    with scratch_folder() as folder:
        copies = {name: f"file{i}" for i, name in enumerate(files or {})}
        seen = {name: os.path.join(folder, copies[of]) for name, of in (names or {}).items()}
        after = dict(itertools.pairwise(arguments))
        for path in (*(own_headers() if own is None else own), after.get(_PRECOMPILED, "")):
            if path and path not in seen:
                seen[path] = path
        extra = {copies[name]: data for name, data in (files or {}).items()}
        extra["overlay"] = _overlay(seen)
        overlay = ("-ivfsoverlay", os.path.join(folder, "overlay"))
        command = [zig(), "clang", "-cc1", *overlay, *arguments, "-"]
        return run_limited(command, text, folder, most, limit, extra).text()


def _overlay(seen: Mapping[str, str]) -> bytes:
    """clang's description of a file system that holds these files (name -> where the content is) and no other."""
    roots = [{"type": "file", "name": name, "external-contents": place} for name, place in seen.items()]
    options = {"version": 0, "case-sensitive": "true", "use-external-names": "false", "overlay-relative": "false"}
    return json.dumps({**options, "redirecting-with": "redirect-only", "roots": roots}).encode()


def language_flags(math_mode: str, optimised: bool, float_type: str = "float") -> list[str]:
    """Flags that shape the language; the precompiled header must be built with the same ones."""
    level = ("-O2",) if optimised else ("-O0", "-disable-O0-optnone")
    retyped = (DOUBLE,) if float_type == "double" else ()
    return [*LANGUAGE, *MATH_FLAGS[math_mode], *retyped, *level]


@functools.lru_cache(maxsize=1)
def fingerprint() -> str:
    """Hash of all that shapes the output besides the source: this package, our Metal headers, the compiler."""
    digest = hashlib.sha256()
    files = [p for folder in (Path(__file__).parent, INCLUDE) for p in sorted(folder.rglob("*")) if p.is_file()]
    for file in files:
        if file.suffix != ".pyc":
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    stat = os.stat(zig())
    digest.update(f"{zig()} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()


ready: dict[str, str] = {}  # precompiled headers by key, for a sealed process, which may not look for them
_PRECOMPILED = "-include-pch"


def precompiled(flags: Sequence[str]) -> dict[str, str]:
    """The precompiled header for these flags, by its key; nothing where it cannot be had."""
    found = standard_library(flags)
    return {_header_key(flags): found[1]} if found[0] == _PRECOMPILED else {}


def _header_key(flags: Sequence[str]) -> str:
    return key_of(fingerprint(), str(INCLUDE), *flags)


def standard_library(flags: Sequence[str]) -> list[str]:
    """Flags that bring metal_stdlib in: precompiled in the cache, or read afresh where that fails."""
    key = _header_key(flags)
    if key in ready:
        return [_PRECOMPILED, ready[key], "-fno-validate-pch"]
    with locks.of("header"):  # another thread may be at it: wait for its header
        found = disk_cache().read_binary("headers", key, ".pch")
        path = found[0] if found else _precompile(key, flags)
    return [_PRECOMPILED, path, "-fno-validate-pch"] if path else plain_library()


def plain_library() -> list[str]:
    """Flags that bring metal_stdlib in without a precompiled header."""
    return ["-include", str(INCLUDE / "metal_stdlib.h"), "-include", str(INCLUDE / "entry.h")]


def _precompile(key: str, flags: Sequence[str]) -> str | None:
    """Path of the new header; None where it cannot be made: an error in the headers shows when they are read afresh."""
    text = f'#include "{INCLUDE / "metal_instances.h"}"\n#include "{INCLUDE / "entry.h"}"\n'
    header_flags = ["c++-header" if flag == "c++" else flag for flag in flags]
    # What the headers themselves instantiate is done here once: without the option every run of clang does it again.
    header_flags += ["-w", "-fpch-instantiate-templates"]
    with scratch_folder() as folder:
        path = os.path.join(folder, "header.pch")
        if clang([*header_flags, "-emit-pch", "-fno-pch-timestamp", "-o", path], text).code != 0:
            return None
        with open(path, "rb") as file:
            data = file.read()
    with contextlib.suppress(MetalcoreError):
        return disk_cache().write_binary("headers", key, data, {}, ".pch")
    return None
