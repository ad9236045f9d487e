"""Reads Mach-O files of 64 bits: what a library needs, imports and exports. No tool of Apple's is asked."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from metalcore.engine.codegen.contents import Unreadable
from metalcore.engine.codegen.macho import commands

ARM64, X86_64 = 0x0100000C, 0x01000007
_LOAD_DYLIB, _WEAK_DYLIB, _REEXPORT_DYLIB, _ID_DYLIB = 0xC, 0x80000018, 0x8000001F, 0xD
_SYMTAB, _SIGNATURE, _TRIE, _INFO, _INFO_ONLY, _BUILD_VERSION = 0x2, 0x1D, 0x80000033, 0x22, 0x80000022, 0x32
_TWO_LEVEL = 0x80
_STAB, _TYPE, _EXTERNAL, _UNDEFINED, _WEAK_REFERENCE = 0xE0, 0x0E, 0x01, 0x0, 0x40


@dataclass
class MachO:
    """One file. `imports` are symbols by the install name of the library that they are bound to."""

    cpu: int
    kind: int  # 1 an object, 2 a program, 6 a dylib
    is_two_level: bool
    name: str = ""  # its own install name
    libraries: list[str] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    exports: set[str] = field(default_factory=set)
    least_system: tuple[int, int] = (0, 0)
    is_signed: bool = False


def read(path: Path, with_exports: bool = True) -> MachO:
    """Everything that the header, the symbol table and the export trie say."""
    data = path.read_bytes()
    table, trie = (0, 0, 0, 0), (0, 0)
    try:
        listed = list(commands(data))
    except Unreadable as error:
        raise Unreadable(f"{path} {error}") from None
    _, cpu, _, kind, _, _, flags, _ = struct.unpack_from("<8I", data)
    found = MachO(cpu, kind, bool(flags & _TWO_LEVEL))
    for command, at in listed:
        if command in (_LOAD_DYLIB, _WEAK_DYLIB, _REEXPORT_DYLIB):
            found.libraries.append(_text(data, at + struct.unpack_from("<I", data, at + 8)[0]))
        elif command == _ID_DYLIB:
            found.name = _text(data, at + struct.unpack_from("<I", data, at + 8)[0])
        elif command == _SYMTAB:
            table = struct.unpack_from("<4I", data, at + 8)
        elif command == _TRIE:
            trie = struct.unpack_from("<2I", data, at + 8)
        elif command in (_INFO, _INFO_ONLY) and not trie[1]:
            trie = struct.unpack_from("<2I", data, at + 40)
        elif command == _BUILD_VERSION:
            version = struct.unpack_from("<I", data, at + 12)[0]
            found.least_system = (version >> 16, version >> 8 & 255)
        elif command == _SIGNATURE:
            found.is_signed = True
    _symbols(data, table, found)
    if with_exports and trie[1]:
        found.exports |= _trie(data[trie[0] : trie[0] + trie[1]])
    return found


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode()


def _symbols(data: bytes, table: tuple[int, int, int, int], found: MachO) -> None:
    symbols, count, strings, size = table
    text = data[strings : strings + size]
    for name_at, kind, _, desc, _ in struct.iter_unpack("<IBBHQ", data[symbols : symbols + 16 * count]):
        if kind & _STAB or not kind & _EXTERNAL:
            continue
        name = text[name_at : text.index(0, name_at)].decode()
        if kind & _TYPE == _UNDEFINED:
            ordinal = desc >> 8
            known = 0 < ordinal <= len(found.libraries)
            found.imports[name] = found.libraries[ordinal - 1] if known else f"ordinal {ordinal}"
        elif found.kind == 1:
            found.exports.add(name)


def _trie(data: bytes) -> set[str]:
    """Names at the ends of the trie."""
    names, left = set(), [(0, b"")]
    while left:
        at, prefix = left.pop()
        size, at = _uleb(data, at)
        if size:
            names.add(prefix.decode())
        at += size
        children, at = data[at], at + 1
        for _ in range(children):
            end = data.index(0, at)
            word = data[at:end]
            offset, at = _uleb(data, end + 1)
            left.append((offset, prefix + word))
    return names


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
