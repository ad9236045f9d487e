"""Reads the object files and shared objects of macOS, as far as it matters what a kernel's has."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from metalcore.engine.codegen.contents import Contents, Unreadable

MAGIC = b"\xcf\xfa\xed\xfe"  # 64 bits, the least byte first
SEGMENT, SYMBOLS, ROUTINES = 0x19, 0x2, 0x1A
LIBRARIES = frozenset((0xC, 0x20, 0x80000018, 0x8000001F, 0x80000023))  # loaded, lazily, weakly, re-exported, upward
_STARTS = {0x9: "functions to start with", 0xA: "functions to end with", 0x16: "offsets of functions to start with"}
_FOR_THREADS = range(0x11, 0x16)
_DEBUG, _PRIVATE, _KIND, _EXTERNAL, _UNDEFINED = 0xE0, 0x10, 0x0E, 0x01, 0x00
# Of zig's linker: the file's own header by two names, and what dyld fills in where a function is called at first.
_OF_THE_LINKER = frozenset(("_mh_dylib_header", "__dso_handle", "dyld_stub_binder"))


def commands(data: bytes) -> Iterator[tuple[int, int]]:
    """What the loader is told, one by one: its kind, and where it lies."""
    if data[:4] != MAGIC:
        raise Unreadable("is no 64-bit Mach-O file")
    (count,) = struct.unpack_from("<I", data, 16)
    at = 32
    for _ in range(count):
        if at + 8 > len(data):
            raise Unreadable("ends within its load commands")
        kind, size = struct.unpack_from("<II", data, at)
        if size < 8:
            raise Unreadable("has a load command without a size")
        yield kind, at
        at += size


def sections(data: bytes) -> Iterator[tuple[str, str, int]]:
    """Segment, name and kind of every section."""
    for command, at in commands(data):
        if command == SEGMENT:
            (count,) = struct.unpack_from("<I", data, at + 64)
            for place in range(at + 72, at + 72 + 80 * count, 80):
                name, segment, flags = struct.unpack_from("<16s16s32xI", data, place)
                yield segment.rstrip(b"\0").decode(), name.rstrip(b"\0").decode(), flags & 0xFF


def read(data: bytes) -> Contents:
    """Raises Unreadable for anything but a Mach-O file of 64 bits."""
    exported: set[str] = set()
    missing: set[str] = set()
    libraries: list[str] = []
    starts: list[str] = []
    for kind, at in commands(data):
        if kind in LIBRARIES:
            (offset,) = struct.unpack_from("<I", data, at + 8)
            libraries.append(_text(data, at + offset))
        elif kind == ROUTINES:
            starts.append("a routine to start with")
        elif kind == SYMBOLS:
            for name, what in _symbols(data, at):
                if what & _EXTERNAL and not what & (_DEBUG | _PRIVATE):
                    (exported if what & _KIND != _UNDEFINED else missing).add(name)
    kinds = [kind for _, _, kind in sections(data)]
    starts += [words for kind, words in _STARTS.items() if kind in kinds]
    return Contents(
        frozenset(exported - _OF_THE_LINKER),
        frozenset(missing - _OF_THE_LINKER),
        tuple(libraries),
        tuple(starts),
        any(kind in _FOR_THREADS for kind in kinds),
    )


def _symbols(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    first, count, names = struct.unpack_from("<III", data, at + 8)
    for place in range(first, first + 16 * count, 16):
        name, what = struct.unpack_from("<IB", data, place)
        yield _text(data, names + name).removeprefix("_"), what


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")
