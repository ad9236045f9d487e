"""Runs the preprocessor over the user's text, with headers that hold only Metal's macros."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metalcore import settings
from metalcore.engine.files import torch_headers
from metalcore.engine.frontend import toolchain
from metalcore.engine.frontend.diagnostics import PRELUDE, Sources, compile_error, with_prelude
from metalcore.engine.frontend.headers import unsupported_header
from metalcore.engine.frontend.model import Searched
from metalcore.engine.frontend.seal import Place, Seal
from metalcore.engine.frontend.tokens import escape, unescape
from metalcore.engine.process import Result
from metalcore.errors import ArgumentError, CompileError

NO_PATH = "<metal>"  # how a source without a file is called in messages
COMPUTED_NAMES = 32
_NOT_FOUND = re.compile(r"(?<=error: )'([^\n]*)' file not found")
_MARKER = re.compile(r'^(# \d+ ")((?:[^"\\]|\\.)*)"', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_FLAGS = (
    *("-E", "-x", "c++", "-std=c++17", "-undef", "-fno-digraphs", "-nostdsysteminc", "-nobuiltininc"),
    *("-triple", "aarch64-unknown-linux-gnu", "-fno-caret-diagnostics", "-w", "-ferror-limit", "20"),
    "-disable-pragma-debug-crash",
    *("-source-date-epoch", "0"),  # __DATE__ and its kin: a cached kernel must not grow old
    *("-D__clang__=1", "-D__METAL_MACOS__=1", "-D__METAL_OSX__=1", "-D__AIR64__=1", "-D__LITTLE_ENDIAN__=1"),
)


@dataclass(frozen=True)
class Preprocessed:
    """The text with every macro expanded and line markers, and the files that it was made of (path, digest).

    *probes* are the other places that it depends on: files that something asks for without including them (path,
    digest), and places where a file was looked for in vain (path, why). *searched* says where.
    """

    text: str
    includes: tuple[tuple[str, str], ...]
    sources: Sources
    probes: tuple[tuple[str, str], ...]
    searched: Searched


def preprocess(
    source: str,
    path: str | None,
    include_dirs: Sequence[str],
    defines: Mapping[str, object],
    math_mode: str,
    float_type: str = "float",
    prelude: str = "",
) -> Preprocessed:
    """Expand includes and macros of *source*, with *prelude* in front of it; its lines keep their numbers.

    Example: `preprocess("kernel void f() {}", None, (), {}, "safe").text` ends with that line.
    """
    if not isinstance(source, str):
        raise ArgumentError(f"the Metal source must be text, not {type(source).__name__}")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"the Metal source is not text: {error}") from None
    source = source.removeprefix("\ufeff")  # a mark of some editors
    limit = settings.source_size()
    if len(source) + len(prelude) > limit:
        size = (len(source) + len(prelude)) / 1e6
        raise CompileError(
            f"the Metal source has {size:.1f} MB of text, more than {limit // 1_000_000} MB; "
            "METALCORE_SOURCE_SIZE raises the limit"
        )
    name = path or NO_PATH
    _check_name(name)
    quoted = escape(name)
    flags = [*_FLAGS, "-include", str(toolchain.STUBS / "metal_stdlib")]
    if math_mode == "fast":
        flags += ["-D__FAST_MATH__=1", "-D__METAL_MAYBE_FAST_MATH__=1"]
    if float_type == "double":
        flags.append(toolchain.DOUBLE)
    macros = [_define(key, value) for key, value in defines.items()]
    front = f'# 1 "{PRELUDE}"\n{prelude}\n' if prelude else ""
    places, torch = _places(path, include_dirs)
    seal = Seal(f"{prelude}\n{source}", places, toolchain.stub_headers(), macros, limit, torch.within if torch else "")
    for place in seal.places:
        flags += [f"-I{place.folder}", f"--embed-dir={place.folder}"]
    result = _run([*flags, *macros], f'{front}# 1 "{quoted}"\n{source}\n', seal, limit)
    for marker in _MARKER.finditer(result.output):
        _check_name(unescape(marker[2]))
    sources = with_prelude(Sources(name, source, seal.includes), prelude)
    if result.code != 0:
        errors = _NOT_FOUND.sub(lambda match: seal.explain(match[1]), result.errors)
        raise unsupported_header(result.errors) or compile_error(errors, sources)
    # What stands before the source are our own macros.
    text = result.output[max(result.output.find(f'\n# 1 "{PRELUDE if prelude else quoted}"') + 1, 0) :]
    entered: set[str] = set()

    def mark(match: re.Match[str]) -> str:
        file = unescape(match[2])
        entered.add(os.path.normpath(file))
        return f'{match[1]}{escape(sources.name(file))}"'

    text = _MARKER.sub(mark, text)
    includes = tuple(item for item in seal.includes.items() if item[0] in entered)
    links = tuple((path, real) for path, real in seal.real.items() if path != real)
    searched = Searched(seal.roots, (torch_headers() or "") if seal.exhausted else None, links)
    others = (item for item in seal.includes.items() if item[0] not in entered)
    return Preprocessed(text, includes, sources, (*others, *seal.probes.items()), searched)


def _check_name(name: str) -> None:
    """Refuse the name of a file that would make a line of its own in clang's messages."""
    if _CONTROL.search(name):
        raise CompileError(f"the name of a file has a control character: {name[:100]!r}")


def _places(path: str | None, include_dirs: Sequence[str]) -> tuple[list[Place], Place | None]:
    """Where files are looked for, in order: beside the source, in the declared folders, in our own, in torch's; and
    torch's, where it is installed."""
    folders = [os.path.dirname(_absolute(path))] if path else []
    folders += [_absolute(os.fspath(folder)) for folder in include_dirs]
    places = [Place(folder, folder) for folder in (*folders, str(toolchain.STUBS))]
    headers = torch_headers()
    torch = Place(headers, os.path.join(headers, "c10", "metal")) if headers else None
    return list(dict.fromkeys([*places, torch] if torch else places)), torch


def _absolute(path: str) -> str:
    """The absolute path; `//tmp`, which POSIX lets stand, is `/tmp`."""
    path = os.path.abspath(path)
    return path[1:] if os.name == "posix" and path.startswith("//") else path


def _run(flags: list[str], text: str, seal: Seal, most: int) -> Result:
    """clang's preprocessor; once more for each name that only it can compute."""
    limit = (
        f"the Metal source has more than {most // 1_000_000} MB of text when its macros and includes are expanded; "
        "METALCORE_SOURCE_SIZE raises the limit"
    )
    own = toolchain.stub_headers()  # the others are for the text that the rewriting makes
    for _ in range(COMPUTED_NAMES):
        result = toolchain.clang(flags, text, files=seal.contents, names=seal.real, own=own, most=most, limit=limit)
        missing = _NOT_FOUND.search(result.errors) if result.code != 0 else None
        if missing is None or not seal.add(missing[1]):
            return result
    raise CompileError(f"the source computes the names of more than {COMPUTED_NAMES} files that it includes")


def _define(name: str, value: object) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ArgumentError(f"a macro in defines has the name {name!r}, which is no identifier")
    if value is None:
        return f"-D{name}="
    return f"-D{name}={int(value) if isinstance(value, bool) else value}"
