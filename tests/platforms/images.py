"""What macOS looks at before it loads a shared object, looked at here.

dyld's rules, as its public source has them: https://github.com/apple-oss-distributions/dyld (mach_o/Policy.cpp)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from metalcore.engine.codegen import macho
from metalcore.engine.target import AARCH64, MACOS_FROM, Platform

_PROCESSORS = {"x86_64": 0x01000007, "aarch64": 0x0100000C}
_DYLIB, _IDENTITY, _UUID, _BUILD, _SIGNATURE, _INFO = 6, 0xD, 0x1B, 0x32, 0x1D, 0x80000022
_READ, _WRITE, _RUN = 1, 2, 4
_SUPERBLOB, _DIRECTORY, _ADHOC, _SHA256 = 0xFADE0CC0, 0xFADE0C02, 0x2, 2


def problems(data: bytes, where: Platform) -> Iterator[str]:
    """Why a Mac would not load the file; nothing where it would."""
    processor, _, kind = struct.unpack_from("<III", data, 4)
    if processor != _PROCESSORS[where.machine]:
        yield f"is for processor {processor:#x}"
    if kind != _DYLIB:
        yield f"is of kind {kind}, no shared object"
    places = dict(macho.commands(data))
    for name, command in (("an install name", _IDENTITY), ("a UUID", _UUID), ("a system", _BUILD)):
        if command not in places:
            yield f"has not {name}"
    if not any(kind in macho.LIBRARIES for kind in places):
        yield "does not name libSystem"
    if _BUILD in places:
        system, least = struct.unpack_from("<II", data, places[_BUILD] + 8)
        major, minor = map(int, MACOS_FROM.split("."))
        if (system, least) != (1, major << 16 | minor << 8):
            yield f"is for system {system}, version {least >> 16}.{least >> 8 & 255}"
    trie = dict(exports(data, places[_INFO])) if _INFO in places else {}
    for name in macho.read(data).exported:
        if trie.get(f"_{name}") != macho.address(data, name):
            yield f"does not tell dyld where {name} is"
    yield from _memory(data, where)
    yield from _signature(data, places.get(_SIGNATURE), where)


def exports(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    """Names and places as dlsym looks them up: a tree of beginnings of names, whose leaves are places."""
    first, _ = struct.unpack_from("<II", data, at + 40)

    def number(at: int) -> tuple[int, int]:
        """Seven bits a byte, the least first; and where the next thing is."""
        value = shift = 0
        while True:
            value, shift, byte, at = value | (data[at] & 127) << shift, shift + 7, data[at], at + 1
            if byte < 128:
                return value, at

    def walk(node: int, name: str) -> Iterator[tuple[str, int]]:
        size, at = number(first + node)
        if size:
            _, place = number(at)  # flags
            yield name, number(place)[0]
        count, at = data[at + size], at + size + 1
        for _ in range(count):
            end = data.index(b"\0", at)
            child, after = number(end + 1)
            yield from walk(child, name + data[at:end].decode())
            at = after

    yield from walk(0, "")


def _memory(data: bytes, where: Platform) -> Iterator[str]:
    """Segments lie on pages of their own, and none can be written and run."""
    page, end = 16384 if where.machine == AARCH64 else 4096, 0
    for command, at in macho.commands(data):
        if command != macho.SEGMENT:
            continue
        raw, address, size, offset, length, most, first = struct.unpack_from("<16sQQQQII", data, at + 8)
        name = raw.rstrip(b"\0").decode()
        if address % page or offset % page or address < end or offset + length > len(data) or length > size:
            yield f"has the segment {name} in a wrong place"
        if (most & _WRITE and most & _RUN) or first & ~most or (first & _RUN) != (_RUN if name == "__TEXT" else 0):
            yield f"has the segment {name} with rights {first} of {most}"
        end = address + size


def _signature(data: bytes, at: int | None, where: Platform) -> Iterator[str]:
    """An ad-hoc one, without which Apple's processors run nothing, is right where each page has its hash."""
    if at is None:
        if where.machine == AARCH64:
            yield "is not signed"
        return
    offset, size = struct.unpack_from("<II", data, at + 8)
    magic, _, count = struct.unpack_from(">III", data, offset)
    blobs = [offset + struct.unpack_from(">II", data, offset + 12 + 8 * i)[1] for i in range(count)]
    directories = [blob for blob in blobs if struct.unpack_from(">I", data, blob)[0] == _DIRECTORY]
    if magic != _SUPERBLOB or not directories or offset + size != len(data):
        yield "has a signature that cannot be read"
        return
    directory = directories[0]
    flags, hashes, _, _, slots, limit, width, kind, _, shift = struct.unpack_from(">6I4B", data, directory + 12)
    if not flags & _ADHOC or kind != _SHA256 or limit != offset:
        yield "has a signature of another kind"
        return
    pages = [data[start : min(start + (1 << shift), limit)] for start in range(0, limit, 1 << shift)]
    found = [data[directory + hashes + i * width : directory + hashes + (i + 1) * width] for i in range(slots)]
    if found != [hashlib.sha256(page).digest() for page in pages]:
        yield "was changed after it was signed"
