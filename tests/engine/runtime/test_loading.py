"""Shared objects load from a folder, and from memory where the folder does not let them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from metalcore.engine.runtime.loading import load_from_memory, load_shared
from metalcore.engine.runtime.native_library import library_path
from metalcore.engine.toolchain import compile_c, link_shared
from metalcore.errors import MetalcoreError


def _answer(folder: Path, number: int) -> str:
    source, objects, shared = (str(folder / f"answer{end}") for end in (".c", ".o", ".so"))
    Path(source).write_text(f'__attribute__((visibility("default"))) int answer(void) {{ return {number}; }}\n')
    compile_c(source, objects)
    link_shared([objects], shared)
    return shared


def test_from_a_folder_and_from_memory(tmp_path: Path) -> None:
    path = _answer(tmp_path, 42)
    assert load_shared(path).answer() == 42
    assert load_from_memory(path).answer() == 42
    assert load_from_memory(_answer(tmp_path, 43)).answer() == 43  # not taken for the one before


def test_what_is_no_shared_object(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"nonsense")
    with pytest.raises(OSError, match=r"invalid ELF header|file too short"):
        load_shared(str(tmp_path / "x.so"))


def test_the_runtime_exports_its_entry_points() -> None:
    library = ctypes.CDLL(library_path())
    for name in ("mc_call", "mc_call_objects", "mc_last_error", "mc_after_fork"):
        assert getattr(library, name)
    with pytest.raises(AttributeError):
        library.mc_pool_open  # noqa: B018 (internal)


def test_a_compiler_error_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f( {")
    with pytest.raises(MetalcoreError, match="expected"):
        compile_c(str(tmp_path / "bad.c"), str(tmp_path / "bad.o"))
