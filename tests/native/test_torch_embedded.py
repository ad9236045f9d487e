"""What native/torch carries of the library: texts of kernels, and a metallib where it was built on a Mac."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.native.machine import Machine, norm

torch: Any = pytest.importorskip("torch")


def test_embedded_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that was built in is not passed again; where it is another one, Python's own is compiled."""
    machine = Machine(tmp_path, ("silu", "rms_norm"))
    has = machine.run.extension.library.metalcore_has_source
    from metalcore.runtimes import native_torch
    from metalcore.runtimes.kernel import read

    assert has(b"silu", native_torch.source_hash(read("silu")))
    assert not has(b"silu", native_torch.source_hash(read("silu")) + 1) and not has(b"gelu", 1)
    norm(machine, torch.zeros(2, 8))
    (row,) = [row for row in machine.metal.log if row[1] == "newLibraryWithSource"]
    assert row[2].startswith("#define METALCORE_DEVICE 1\n" + read("rms_norm"))
    other = Machine(tmp_path, ("silu",))
    monkeypatch.setattr(native_torch, "read", lambda file: read(file) + "// changed\n")
    norm(other, torch.zeros(2, 8))
    (row,) = [row for row in other.metal.log if row[1] == "newLibraryWithSource"]
    assert "// changed\n" in row[2]


def test_embedded_metallib(tmp_path: Path) -> None:
    """Apple's own library is asked first; a variant that it lacks is compiled from the text."""
    machine = Machine(tmp_path, ("rms_norm",), b"MTLB\0\1\2")
    assert machine.run.extension.has_metallib
    norm(machine, torch.zeros(2, 8))
    names = [row[:2] for row in machine.metal.sent("device", "library", "metallib")]
    assert names == [
        ("device", "newLibraryWithData"),
        ("metallib", "newFunctionWithName"),
        ("device", "newComputePipelineState"),
    ]
    assert machine.metal.sent("device")[0][2] == b"MTLB\0\1\2"
    machine.metal.fails["newFunctionWithName of metallib"] = "no such function"
    norm(machine, torch.zeros(2, 8), torch.zeros(8))
    names = [row[:2] for row in machine.metal.sent("device", "library", "metallib")][3:]
    assert names == [
        ("metallib", "newFunctionWithName"),
        ("device", "newLibraryWithSource"),
        ("library", "newFunctionWithName"),
        ("device", "newComputePipelineState"),
    ]
