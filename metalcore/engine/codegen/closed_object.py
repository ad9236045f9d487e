"""The last look at a kernel's shared object: it exports one function, needs nothing and runs nothing when loaded."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from metalcore.errors import MetalcoreError

EXPORTED = frozenset(("mc_run",))
# What LLVM calls on a machine without the instructions: plain functions of numbers.
MATH = frozenset(
    name + kind
    for name in ("fma", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "sqrt", "fmin", "fmax")
    for kind in ("", "f")
)
_LOAD, _DYNAMIC, _TLS = 1, 2, 7
_NEEDED, _HASH, _STRINGS, _SYMBOLS = 1, 4, 5, 6
_RUNS = {12: "DT_INIT", 13: "DT_FINI", 25: "DT_INIT_ARRAY", 26: "DT_FINI_ARRAY", 32: "DT_PREINIT_ARRAY"}


def check_object(path: str, allowed: Iterable[str] = ()) -> None:
    """Raise MetalcoreError where the shared object at *path* has more to it than a kernel."""
    more, missing = _read(path)
    if unknown := sorted(missing.difference(allowed)):
        more = f"uses {', '.join(unknown)}, which it would find in this process"
    if more:
        raise MetalcoreError(f"the machine code of a kernel {more}; it is not loaded. Please report this.")


def undefined(path: str) -> frozenset[str]:
    """Names that a shared object leaves to the process that loads it."""
    return _read(path)[1]


def _read(path: str) -> tuple[str, frozenset[str]]:
    with open(path, "rb") as file:
        data = file.read()
    missing: set[str] = set()
    return _more(data, missing), frozenset(missing)


def _more(data: bytes, missing: set[str]) -> str:
    """What the object has that a kernel has not; names without a definition go to *missing*."""
    if data[:6] != b"\x7fELF\x02\x01":
        return "is no 64-bit ELF file"
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    if any(kind == _TLS for kind, *_ in segments):
        return "has variables of its own for each thread"
    dynamic: dict[int, int] = {}
    for kind, _, offset, _, _, length in segments:
        if kind == _DYNAMIC:
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                dynamic.setdefault(tag, value)
    if _NEEDED in dynamic:
        return "needs another library"
    if runs := [name for tag, name in _RUNS.items() if tag in dynamic]:
        return f"runs code when it is loaded ({', '.join(runs)})"
    if not {_HASH, _STRINGS, _SYMBOLS} <= dynamic.keys():
        return "has no table of symbols"

    def place(address: int) -> int:
        """Where an address lies in the file."""
        for kind, _, offset, start, _, length in segments:
            if kind == _LOAD and start <= address < start + length:
                return int(offset + address - start)
        return len(data)

    (total,) = struct.unpack_from("<I", data, place(dynamic[_HASH]) + 4)
    names, symbols = place(dynamic[_STRINGS]), place(dynamic[_SYMBOLS])
    exported: set[str] = set()
    for i in range(1, total):
        name, _, _, section = struct.unpack_from("<IBBH", data, symbols + 24 * i)
        text = data[names + name : data.index(b"\0", names + name)].decode(errors="replace")
        (missing if section == 0 else exported).add(text)
    if exported != EXPORTED:
        return f"exports {', '.join(sorted(exported)) or 'nothing'} instead of {', '.join(sorted(EXPORTED))}"
    return ""
