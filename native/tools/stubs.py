"""Stubs of Apple's own libraries to link against: they list exactly what torch's and mlx's macOS libraries import from
each, so that the linker itself refuses a name that nothing shows to exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from metalcore.engine.toolchain import zig
from native.tools.macho import MachO

SYSTEM = "/usr/lib/libSystem.B.dylib"
STUBBED = ("/usr/lib/libobjc.A.dylib", "/usr/lib/libc++.1.dylib")


def write(folder: Path, known: Iterable[MachO]) -> list[Path]:
    """The stubs as files."""
    known = list(known)
    paths = []
    for library in STUBBED:
        names = sorted({s for file in known for s, source in file.imports.items() if source == library})
        paths.append(folder / f"{library.rpartition('/')[2].removesuffix('.dylib')}.tbd")
        paths[-1].write_text(_text(library, names))
    return paths


def _text(library: str, symbols: list[str]) -> str:
    return (
        "--- !tapi-tbd\n"
        "tbd-version: 4\n"
        "targets: [ arm64-macos ]\n"
        f"install-name: '{library}'\n"
        "exports:\n"
        "  - targets: [ arm64-macos ]\n"
        f"    symbols: [ {', '.join(repr(s) for s in symbols)} ]\n"
        "...\n"
    )


def system_symbols() -> frozenset[str]:
    """What Apple's libSystem has, by the list that zig carries of it."""
    text = (Path(zig()).parent / "lib" / "libc" / "darwin" / "libSystem.tbd").read_text()
    return frozenset(re.findall(r"[\w$]+", text))
