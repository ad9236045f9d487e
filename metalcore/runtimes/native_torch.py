"""The native torch extension as Python calls it, by ctypes: pipelines, launches and copies of native/torch/abi.cpp.

Built for macOS and never run there: the tests run its core on Linux, with a stand-in for Metal.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from metalcore import settings
from metalcore.errors import LaunchError, MetalcoreError
from metalcore.runtimes.kernel import Variant, read

ABI = 1
BUFFER, BYTES, ADDRESSES = 1, 2, 3
Words = tuple[int, int, int, int]
"""One argument of a launch: kind, value, offset, length."""

_CONSTANT = re.compile(r"constant\s+(\w+)\s+(\w+)\s*\[\[function_constant\((\d+)\)\]\];")
# MTLDataType, and how a value lies in memory.
_DATA_TYPES = {"bool": (53, "?7x"), "int": (29, "i4x"), "uint": (33, "I4x"), "float": (3, "f4x"), "long": (81, "q")}


class _Constant(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("index", ctypes.c_uint32), ("value", ctypes.c_uint64)]


class _Variant(ctypes.Structure):
    _fields_ = [
        ("label", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
        ("hash", ctypes.c_uint64),
        ("source", ctypes.c_char_p),
        ("instantiation", ctypes.c_char_p),
        ("entry_point", ctypes.c_char_p),
        ("constants", ctypes.POINTER(_Constant)),
        ("constant_count", ctypes.c_uint64),
        ("is_fast_math", ctypes.c_uint64),
    ]


@cache
def source_hash(text: str) -> int:
    """Of the text of a kernel file: what pipelines and embedded sources are told apart by."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def constant_values(variant: Variant) -> list[tuple[int, int, int]]:
    """(MTLDataType, index, bytes) of every function constant of the file; one that the kernel does not name is 0."""
    given: dict[str, Any] = dict(zip(variant.kernel.constants, variant.constants, strict=True))
    found = []
    for kind, name, index in _CONSTANT.findall(read(variant.kernel.file)):
        code, layout = _DATA_TYPES[kind]
        (bits,) = struct.unpack("<Q", struct.pack(f"<{layout}", given.pop(name, 0)))
        found.append((code, int(index), bits))
    if given:
        raise MetalcoreError(f"kernels/{variant.kernel.file}.metal declares no function constant {', '.join(given)}")
    return found


class Extension:
    """A library that has the C functions of native/torch/abi.cpp."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        version = library.metalcore_abi_version()
        if version != ABI:
            raise MetalcoreError(f"the native extension has version {version} of its functions, not {ABI}: rebuild it")
        pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
        library.metalcore_has_source.argtypes = [ctypes.c_char_p, u64]
        library.metalcore_pipeline.argtypes = [ctypes.POINTER(_Variant), ctypes.c_char_p, u64]
        library.metalcore_pipeline.restype = pointer
        library.metalcore_most_threads.argtypes, library.metalcore_most_threads.restype = [pointer], u64
        library.metalcore_built_in_bytes.restype = u64
        library.metalcore_launch.argtypes = [pointer, u64, ctypes.c_char_p, u64]
        library.metalcore_copy.argtypes = [pointer, u64, ctypes.c_char_p, u64]

    def schema(self, name: str) -> str | None:
        """Of an op that was registered when the library was loaded; the core alone registers none."""
        if not hasattr(self.library, "metalcore_schema"):
            return None
        self.library.metalcore_schema.restype = ctypes.c_char_p
        found = self.library.metalcore_schema(name.encode())
        return None if found is None else str(found.decode())

    def note(self, words: Sequence[int]) -> bool:
        """What the plan that is carried out in this thread did; whether it was understood."""
        packed = (ctypes.c_uint64 * len(words))(*words)
        return not self.library.metalcore_note(ctypes.c_void_p(ctypes.addressof(packed)), ctypes.c_uint64(len(words)))

    def watch(self, is_watched: bool) -> None:
        """While somebody watches, each plan runs in Python."""
        self.library.metalcore_watch(int(is_watched))

    @property
    def known_plans(self) -> int:
        return int(self.library.metalcore_known_plans())

    @property
    def has_metallib(self) -> bool:
        """Whether Apple's compiler made its kernels when it was built."""
        return bool(self.library.metalcore_built_in_bytes())

    def pipeline(self, variant: Variant) -> int:
        """The handle of a variant's pipeline, compiled at its first use in the process."""
        text = read(variant.kernel.file)
        number, file = source_hash(text), variant.kernel.file.encode()
        known = self.library.metalcore_has_source(file, number)
        constants = constant_values(variant)
        given = _Variant(
            label=variant.label.encode(),
            file=file,
            hash=number,
            source=None if known else text.encode(),
            instantiation=variant.instantiation.encode(),
            entry_point=variant.entry_point.encode(),
            constants=(_Constant * len(constants))(*[_Constant(*row) for row in constants]),
            constant_count=len(constants),
            is_fast_math=settings.mps_fast_math(),
        )
        said = ctypes.create_string_buffer(1 << 16)  # a compiler's words are long
        made = self.library.metalcore_pipeline(ctypes.byref(given), said, len(said))
        if not made:
            raise LaunchError(said.value.decode(errors="replace"))
        return int(made)

    def most_threads(self, pipeline: int) -> int:
        """What one threadgroup may have."""
        return int(self.library.metalcore_most_threads(pipeline))

    def launch(self, pipeline: int, arguments: Sequence[Words], groups: Sequence[int], group: Sequence[int]) -> None:
        """Encode one launch on the current stream: three numbers each of threadgroups and threads of one."""
        count = len(arguments)
        words = (ctypes.c_uint64 * (9 + 4 * count))(pipeline, 0, count, *groups, *group, *_flat(arguments))
        words[1] = ctypes.addressof(words) + 72
        self._call(self.library.metalcore_launch, ctypes.addressof(words), 1)

    def copy(self, copies: Sequence[tuple[int, int, int, int, int]]) -> None:
        """Blit (source, its offset, target, its offset, bytes), all of which have room."""
        words = (ctypes.c_uint64 * (5 * len(copies)))(*_flat(copies))
        self._call(self.library.metalcore_copy, ctypes.addressof(words), len(copies))

    def _call(self, function: Any, words: int, count: int) -> None:
        said = ctypes.create_string_buffer(1024)
        if function(words, count, said, len(said)):
            raise LaunchError(said.value.decode(errors="replace"))


def _flat(rows: Sequence[Sequence[int]]) -> list[int]:
    return [word for row in rows for word in row]
