"""The cache on disk: filled at once, damaged, read-only, full: never a wrong result, never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from metalcore.engine.model import NativeKernel, Site, ThreadgroupVariable
from metalcore.engine.store import identity
from metalcore.engine.store.cache import DiskCache
from metalcore.errors import CacheWarning


def _files(cache: DiskCache) -> list[Path]:
    return [path for path in Path(cache.root).rglob("*") if path.is_file() and path.name != "pruned"]


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
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.write("notes", "k", b"text")
    path = cache.write_binary("kernels", "k", b"ELF", {})
    assert cache.read("notes", "k") == b"text"
    assert cache.read_binary("kernels", "k") == (path, {})
    assert not path.startswith(str(tmp_path))


def run(program: str, *arguments: object) -> None:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


READ_ONLY = """
import atexit, os, shutil, sys, tempfile, warnings
from metalcore.engine.store.cache import DiskCache
folder = sys.argv[1]
cache = DiskCache(folder)
cache.write("notes", "old", b"kept")
for place in (folder, cache.root, cache.root + "/any", cache.root + "/any/notes"):
    os.chmod(place, 0o500)
if os.geteuid() == 0:  # root may write anywhere
    os.chown(folder, 65534, 65534)
    for place in (cache.root, cache.root + "/any", cache.root + "/any/notes", cache.root + "/any/notes/old"):
        os.chown(place, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    cache = DiskCache(folder)
    cache.write("notes", "k", b"text")
    cache.write("notes", "l", b"text")
assert [str(w.message).count(folder) for w in said] == [1], said  # said once
assert cache.read("notes", "k") == b"text"
assert cache.read("notes", "old") == b"kept"
"""


def test_a_read_only_folder() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own is for root alone
        run(READ_ONLY, folder)


FULL = """
import resource, sys, warnings
from metalcore.engine.store.cache import DiskCache
from metalcore.errors import CacheWarning, MetalcoreError
warnings.simplefilter("ignore", CacheWarning)
cache = DiskCache(sys.argv[1])
cache.write("notes", "small", b"kept")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # every write beyond fails half-way, as on a full disk
cache.write("notes", "k", b"x" * 5000)
assert cache.read("notes", "k") is None and cache.read("notes", "small") == b"kept"
try:
    cache.write_binary("kernels", "k", b"x" * 5000, {})
except MetalcoreError as error:
    assert sys.argv[1] in str(error) and "5000 bytes" in str(error)
else:
    raise AssertionError("no error")
"""


def test_a_full_disk(tmp_path: Path) -> None:
    run(FULL, tmp_path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file() and file.name != "pruned"] == ["small"]


def test_entries_that_were_swapped_or_are_no_files(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.write("notes", "a", b"1")
    cache.write("notes", "b", b"2")
    folder = Path(cache.root) / "any" / "notes"
    (folder / "a").rename(folder / "c")
    (folder / "b").rename(folder / "a")
    (folder / "c").rename(folder / "b")
    assert cache.read("notes", "a") is None and cache.read("notes", "b") is None  # each knows its name
    cache.write("notes", "a", b"1")
    outside = tmp_path / "outside"
    (folder / "a").rename(outside)
    (folder / "a").symlink_to(outside)
    assert cache.read("notes", "a") is None
    (folder / "a").unlink()
    os.mkfifo(folder / "a")
    assert cache.read("notes", "a") is None
    (folder / "a").unlink()
    (folder / "a").mkdir()
    assert cache.read("notes", "a") is None


def test_a_shared_object_lies_in_the_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    path = Path(cache.write_binary("kernels", "k", b"ELF", {}))
    evil = tmp_path / "evil.so"
    evil.write_bytes(b"ELF")
    path.unlink()
    path.symlink_to(evil)
    assert cache.read_binary("kernels", "k") is None
    for name in ("../k", "a/b", "a\0b", "", ".", "..", "k.so", "x" * 200):
        with pytest.raises(ValueError, match="cannot be the name"):
            cache.read_binary("kernels", name)
        with pytest.raises(ValueError, match="cannot be the name"):
            cache.write("kernels", name, b"")
        with pytest.raises(ValueError, match="cannot be the name"):
            cache.read(name, "k")


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.write("notes", "k", b"text")
    shutil.rmtree(tmp_path / "cache")
    assert cache.read("notes", "k") is None
    cache.write("notes", "k", b"again")
    assert cache.read("notes", "k") == b"again"
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


FILL = """
import sys
from metalcore.engine.store.cache import DiskCache
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
