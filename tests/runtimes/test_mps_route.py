"""Which way tensors on MPS take, and what is said of it."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import pytest

import metalcore
from metalcore.engine.runtime.native_library import library_path
from metalcore.errors import MetalcoreError
from metalcore.runtimes.mps_route import Route, _found, choose, file_name, route
from metalcore.runtimes.native_torch import Extension
from metalcore.tools.doctor_torch import torch_route
from native.tools.core import library
from native.tools.embed import embedded

torch: Any = pytest.importorskip("torch")


def load(path: Path) -> Extension:
    return Extension(ctypes.CDLL(str(path)))


def chosen(folder: Path, version: str = "2.13.0+cpu", machine: str = "arm64") -> Route:
    return choose(folder, "darwin", machine, version, load)


def test_one_that_fits(tmp_path: Path) -> None:
    for files, metallib, maker in (((), b"", "Metal, from source, at first use"), (("silu",), b"MTLB", "Apple's")):
        folder = tmp_path / f"with {len(metallib)} bytes"
        folder.mkdir()
        shutil.copy(library(embedded(files, metallib)), folder / "torch-2.13-macos-arm64.dylib")
        found = chosen(folder)
        assert found.extension is not None and "it fits torch 2.13" in str(found) and maker in found.why
        assert str(found).startswith("the native torch extension: ")


def test_reasons_why_not(tmp_path: Path) -> None:
    assert file_name("2.14.1") == "torch-2.14-macos-arm64.dylib"
    assert chosen(tmp_path).why == "no native extension for torch 2.13 is installed; there is none at all"
    (tmp_path / file_name("2.12.0")).write_bytes(b"")
    assert chosen(tmp_path).why.endswith("for torch 2.13 is installed; there is one for 2.12")
    assert chosen(tmp_path, machine="x86_64").why == "the native extension is for macOS on Apple silicon"
    found = chosen(tmp_path, "2.12.1")
    assert found.extension is None and found.why.startswith("torch-2.12-macos-arm64.dylib does not load: ")
    (tmp_path / file_name("2.11.0")).symlink_to(library_path())  # a library, and another one
    assert "does not load: " in chosen(tmp_path, "2.11.1").why


def test_functions_of_another_version(tmp_path: Path) -> None:
    class Older:
        def metalcore_abi_version(self) -> int:
            return 0

    with pytest.raises(MetalcoreError, match="has version 0 of its functions, not 1: rebuild it"):
        Extension(Older())  # type: ignore[arg-type]


def test_what_is_said_here() -> None:
    said = str(route())
    assert said.startswith("torch.mps.compile_shader: ")
    assert repr(metalcore.explain()).endswith(f"\n\ntensors on MPS run by {said}")
    assert torch_route() == (True, said)
    with metalcore.emulate():
        assert route().why == "inside metalcore.emulate() the engine stands in for it"


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_TORCH_EXTENSION", "0")
    _found.cache_clear()
    try:
        assert route() == Route(None, "METALCORE_TORCH_EXTENSION=0 turns the native extension off")
    finally:
        _found.cache_clear()
