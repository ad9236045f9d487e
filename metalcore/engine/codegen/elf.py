"""Reads the shared objects of Linux, as far as it matters what a kernel's has."""

from __future__ import annotations

import struct

from metalcore.engine.codegen.contents import Contents, Unreadable

_LOAD, _DYNAMIC, _TLS = 1, 2, 7
_NEEDED, _HASH, _STRINGS, _SYMBOLS = 1, 4, 5, 6
_RUNS = {12: "DT_INIT", 13: "DT_FINI", 25: "DT_INIT_ARRAY", 26: "DT_FINI_ARRAY", 32: "DT_PREINIT_ARRAY"}


def read(data: bytes) -> Contents:
    """Raises Unreadable for anything but a shared object of 64 bits."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise Unreadable("is no 64-bit ELF file")
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    dynamic: dict[int, int] = {}
    needed: list[int] = []
    for kind, _, offset, _, _, length in segments:
        if kind == _DYNAMIC:
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                dynamic.setdefault(tag, value)
                if tag == _NEEDED:
                    needed.append(value)
    if not {_HASH, _STRINGS, _SYMBOLS} <= dynamic.keys():
        raise Unreadable("has no table of symbols")

    def place(address: int) -> int:
        """Where an address lies in the file."""
        for kind, _, offset, start, _, length in segments:
            if kind == _LOAD and start <= address < start + length:
                return int(offset + address - start)
        return len(data)

    (total,) = struct.unpack_from("<I", data, place(dynamic[_HASH]) + 4)
    names, symbols = place(dynamic[_STRINGS]), place(dynamic[_SYMBOLS])

    def name_at(offset: int) -> str:
        return data[names + offset : data.index(b"\0", names + offset)].decode(errors="replace")

    exported: set[str] = set()
    missing: set[str] = set()
    for i in range(1, total):
        name, _, _, section = struct.unpack_from("<IBBH", data, symbols + 24 * i)
        (missing if section == 0 else exported).add(name_at(name))
    return Contents(
        frozenset(exported),
        frozenset(missing),
        tuple(name_at(value) for value in needed),
        tuple(name for tag, name in _RUNS.items() if tag in dynamic),
        any(kind == _TLS for kind, *_ in segments),
    )
