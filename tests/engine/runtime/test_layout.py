"""engine/abi.py, layout.py and the C headers say the same."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from metalcore.engine import abi
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.native_library import SOURCES
from metalcore.engine.toolchain import compile_c, link_shared


def _as_c_sees_them(folder: Path, expressions: list[str]) -> list[int]:
    source, objects, shared = (str(folder / f"offsets{end}") for end in (".c", ".o", ".so"))
    Path(source).write_text(
        f'#include "{os.path.join(SOURCES, "sanitize.h")}"\n'
        f'__attribute__((visibility("default"))) const uint64_t offsets[] = {{{", ".join(expressions)}}};\n'
    )
    compile_c(source, objects)
    link_shared([objects], shared)
    return list((ctypes.c_uint64 * len(expressions)).in_dll(ctypes.CDLL(shared), "offsets"))


def test_every_field_lies_where_c_puts_it(tmp_path: Path) -> None:
    structs = {**layout.STRUCTS, "mc_sanitizer": abi.Sanitizer}
    fields = [(name, field[0]) for name, struct in structs.items() for field in struct._fields_]
    found = _as_c_sees_them(tmp_path, [f"offsetof({name}, {field})" for name, field in fields])
    assert found == [abi.offset(structs[name], field) for name, field in fields]
    assert len(fields) > 40


def test_structs_and_constants_are_the_same(tmp_path: Path) -> None:
    names = list(layout.STRUCTS)
    constants = [
        "MC_BUFFERS",
        "MC_LANES",
        "MC_FRAME_ALIGN",
        "MC_GROUP_MEMORY_ALIGN",
        "MC_LOAD",
        "MC_STORE",
        "MC_ATOMIC",
        "MC_ATOMIC_LOAD",
        "MC_READ_ONLY",
        "MC_MISALIGNED",
        "MC_APART_AT_BARRIERS",
        "MC_GROUP_ROOT",
        "MC_ANY_ROOT",
        "MC_SIMDGROUPS",
    ]
    found = _as_c_sees_them(tmp_path, [f"sizeof({name})" for name in names] + constants)
    assert found[: len(names)] == [ctypes.sizeof(layout.STRUCTS[name]) for name in names]
    assert found[len(names) :] == [
        layout.BUFFERS,
        layout.LANES,
        layout.FRAME_ALIGN,
        layout.GROUP_MEMORY_ALIGN,
        layout.LOAD,
        layout.STORE,
        layout.ATOMIC,
        layout.ATOMIC_LOAD,
        layout.READ_ONLY,
        layout.MISALIGNED,
        abi.APART_AT_BARRIERS,
        abi.GROUP_ROOT,
        abi.ANY_ROOT,
        abi.SIMDGROUPS,
    ]
