"""The precompiled header is only a shortcut: damaged, missing or not writable, the result is the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metalcore.engine.frontend import lower, make_unit, toolchain
from metalcore.errors import CacheWarning

SOURCE = "kernel void f(device float* x) { x[0] = metal::exp(x[1]); }"


def ir() -> str:
    return lower(make_unit(SOURCE), "f", None).ir


@pytest.fixture
def expected() -> str:
    return ir()


def test_a_damaged_header_is_made_again(expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path))
    assert ir() == expected
    (header,) = tmp_path.rglob("*.pch")
    data = bytearray(header.read_bytes())
    data[len(data) // 2] ^= 1
    for damage in (b"CPCH" + b"\0" * 100, bytes(data)):
        for file in tmp_path.rglob("*.pch"):
            file.write_bytes(damage)
        assert ir() == expected
    assert sorted(file.stat().st_size for file in tmp_path.rglob("*.pch"))[-1] == len(data)


def test_a_cut_header_is_made_again(expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path))
    ir()
    (header,) = tmp_path.rglob("*.pch")
    header.write_bytes(header.read_bytes()[:100_000])
    assert ir() == expected


def test_a_cache_that_cannot_be_written(expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("METALCORE_CACHE", str(blocked / "cache"))
    with pytest.warns(CacheWarning, match="cannot be written"):
        assert ir() == expected


def test_stages_are_dumped_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_DUMP", str(tmp_path / "dump"))
    text = ir()
    assert (tmp_path / "dump" / "scalar_raw.ll").read_text() == text
    assert "void f(__mc_device float* x)" in (tmp_path / "dump" / "unit.cpp").read_text()


def test_the_compiler_comes_from_the_wheel() -> None:
    assert os.path.exists(toolchain.zig())
    assert len(toolchain.fingerprint()) == 64


def test_importing_starts_no_process_and_no_framework() -> None:
    code = (
        "import sys; import metalcore.engine.frontend; "
        "print([m for m in ('subprocess', 'llvmlite', 'torch', 'mlx', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
