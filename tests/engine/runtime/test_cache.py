"""The cache on disk: filled at once, damaged, read-only, full: never a wrong result, never an error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from metalcore.engine.codegen import cache as cache_module
from metalcore.engine.codegen import identity
from metalcore.engine.codegen.cache import DiskCache
from metalcore.engine.codegen.variant import NativeKernel, Site, ThreadgroupVariable


def _files(cache: DiskCache) -> list[Path]:
    return [path for path in Path(cache.root).rglob("*") if path.is_file()]


def test_entries_come_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    assert cache.read("notes", "k") is None
    cache.write("notes", "k", b"\0text")
    cache.write_json("notes", "j", {"a": [1, None]})
    assert cache.read("notes", "k") == b"\0text"
    assert cache.read_json("notes", "j") == {"a": [1, None]}
    path = cache.write_binary("kernels", "k", b"ELF", {"sites": []})
    assert DiskCache(tmp_path).read_binary("kernels", "k") == (path, {"sites": []})
    assert not [f for f in _files(cache) if f.name.endswith(".tmp")]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "gone"])
def test_damage_counts_as_absent(tmp_path: Path, damage: str) -> None:
    cache = DiskCache(tmp_path)
    cache.write("notes", "k", b"text" * 100)
    cache.write_binary("kernels", "k", b"ELF" * 100, {})
    for file in _files(cache):
        data = file.read_bytes()
        if damage == "gone":
            file.unlink()
            continue
        changed = {"cut": data[:-1], "flip": data[:-1] + bytes([data[-1] ^ 1]), "empty": b"", "other": b"x" * len(data)}
        file.write_bytes(changed[damage])
    assert cache.read("notes", "k") is None
    assert cache.read_binary("kernels", "k") is None
    cache.write("notes", "k", b"new")
    path = cache.write_binary("kernels", "k", b"ELF", {})
    assert cache.read("notes", "k") == b"new"
    assert cache.read_binary("kernels", "k") == (path, {})


def test_a_damaged_shared_object_alone_counts_as_absent(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    path = cache.write_binary("kernels", "k", b"ELF", {})
    Path(path).write_bytes(b"XLF")
    assert cache.read_binary("kernels", "k") is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = DiskCache(tmp_path / "file" / "cache")
    cache.write("notes", "k", b"text")
    path = cache.write_binary("kernels", "k", b"ELF", {})
    assert cache.read("notes", "k") == b"text"
    assert cache.read_binary("kernels", "k") == (path, {})
    assert not path.startswith(str(tmp_path))


def test_a_read_only_folder(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.write("notes", "old", b"kept")
    folders = [tmp_path, Path(cache.root), Path(cache.root) / "notes"]
    for folder in folders:
        folder.chmod(0o500)
    try:
        cache.write("notes", "k", b"text")
        assert cache.read("notes", "k") == b"text"
        assert cache.read("notes", "old") == b"kept"
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real write fails half-way, as on a full disk; only the call that says so is replaced."""
    real = os.replace

    def full(source: str, target: str) -> None:
        if str(target).startswith(str(tmp_path)):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(cache_module.os, "replace", full)
    cache = DiskCache(tmp_path)
    cache.write("notes", "k", b"text")
    assert cache.read("notes", "k") == b"text"
    assert _files(cache) == []  # nothing half-written stays behind


FILL = """
import sys
from metalcore.engine.codegen.cache import DiskCache
cache = DiskCache(sys.argv[1])
for round in range(200):
    for key in ("a", "b"):
        data = (sys.argv[2] + key).encode() * 5000
        path = cache.write_binary("kernels", key, data, {"by": sys.argv[2]})
        found = cache.read_binary("kernels", key)
        assert found is not None
        content = open(found[0], "rb").read()
        assert content == (found[1]["by"] + key).encode() * 5000, "mixed up"
"""


def test_two_processes_fill_it_at_once(tmp_path: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", FILL, str(tmp_path), who], stderr=subprocess.PIPE) for who in "12"]
    for run in runs:
        _, stderr = run.communicate(timeout=60)
        assert run.returncode == 0, stderr.decode()


def test_native_kernels_go_through_json() -> None:
    sites = (Site("a.metal", 1, 2, "load", 0, 4), Site("a.metal", 3, 4, "store", "tile", 2))
    kernel = NativeKernel("/x.so", sites, 64, (ThreadgroupVariable("tile", 0, 64),), (1, 2))
    assert NativeKernel.from_json(kernel.to_json(), "/x.so") == kernel


def test_keys_depend_on_everything_given() -> None:
    assert identity.key_of("a", 1) == identity.key_of("a", 1)
    assert len({identity.key_of(*parts) for parts in [("a", 1), ("a", "1"), ("a1",), (("a", 1),), ("a", True)]}) == 5


def test_the_engine_stamp_sees_a_touched_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "include").mkdir()
    header = tmp_path / "include" / "x.h"
    header.write_text("1")
    monkeypatch.setattr(identity, "ENGINE", str(tmp_path))
    stamp, content = identity.engine_stamp(), identity.engine_content()
    assert (identity.engine_stamp(), identity.engine_content()) == (stamp, content)
    header.write_text("2")
    assert identity.engine_stamp() != stamp
    assert identity.engine_content() != content
