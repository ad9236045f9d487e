"""The folder of the cache: private, or refused; small, and free of what nobody uses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.engine.store import prune
from metalcore.engine.store.cache import DiskCache
from metalcore.errors import CacheRefused

SOURCE = "kernel void k(device float* o, uint i [[thread_position_in_grid]]) { o[i] = 3; }"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.mark.feature("API", "a cache folder that others can change is refused, by name and with the remedy")
def test_a_folder_that_others_can_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("METALCORE_CACHE", str(folder))
    for mode in (0o777, 0o770, 0o702, 0o1777):
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(CacheRefused, match=r"can write to it.*chmod go-w") as caught:
            metalcore.Library(SOURCE)
        assert str(folder) in str(caught.value)
        assert list(folder.iterdir()) == []
        folder.rmdir()


def test_a_folder_above_that_others_can_write_to(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    for folder in (above / "cache", above / "new" / "cache"):
        with pytest.raises(CacheRefused, match="above it can be written by everybody"):
            DiskCache(folder)
    assert list(above.iterdir()) == []
    above.chmod(0o1777)  # as /tmp: nobody can rename what is another's
    DiskCache(above / "cache")
    assert (above / "cache").stat().st_mode & 0o777 == 0o700


@needs_root
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    for place in ("cache", "home"):
        folder = tmp_path / place
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    with pytest.raises(CacheRefused, match="belongs to user"):
        DiskCache(tmp_path / "cache")
    with pytest.raises(CacheRefused, match="above it belongs to user"):
        DiskCache(tmp_path / "home" / ".cache" / "metalcore")


def test_folders_in_it_that_lead_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for depth in (1, 2, 3):
        home = tmp_path / str(depth)
        inner = home.joinpath(*("2", "any", "notes")[:depth])
        inner.parent.mkdir(parents=True, mode=0o700)
        inner.symlink_to(elsewhere)
        with pytest.raises(CacheRefused, match="symbolic link"):
            DiskCache(home).write("notes", "k", b"text")
    assert list(elsewhere.iterdir()) == []


def test_new_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache = DiskCache(tmp_path / "a" / "b")
        path = Path(cache.write_binary("kernels", "k", b"ELF", {}))
    finally:
        os.umask(before)
    made = [tmp_path / "a", *(p for p in (tmp_path / "a").rglob("*") if p.is_dir())]
    assert {place.stat().st_mode & 0o777 for place in made} == {0o700}
    assert path.stat().st_mode & 0o777 == 0o600
    assert DiskCache(tmp_path / "a" / "b").read_binary("kernels", "k") == (str(path), {})


def test_the_oldest_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE_SIZE", "1")
    cache = DiskCache(tmp_path)
    for i in range(12):
        cache.write("notes", f"k{i}", b"x" * 100_000)
        if cache.read("notes", f"k{i}"):
            used = time.time() - 1000 + i
            os.utime(Path(cache.root) / "any" / "notes" / f"k{i}", (used, used))
    kept = [i for i in range(12) if cache.read("notes", f"k{i}")]
    assert 11 in kept and 0 not in kept and kept == sorted(kept)
    assert sum(file.size for file in prune.files(cache.root)) <= 1_000_000


CROWD = """
import sys
from metalcore.engine.store.cache import DiskCache
cache = DiskCache(sys.argv[1])
kept = 0
for i in range(60):
    data = (sys.argv[2] + str(i)).encode() * 20_000
    path = cache.write_binary("kernels", f"k{i % 20}", data, {"data": sys.argv[2] + str(i)})
    found = cache.read_binary("kernels", f"k{i % 20}")  # the other may have removed or replaced it
    if found is not None:
        kept += 1
        try:
            content = open(found[0], "rb").read()
        except FileNotFoundError:
            continue
        assert content == found[1]["data"].encode() * 20_000, "mixed up"
assert kept > 30
"""


def test_two_processes_fill_and_prune_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE_SIZE", "1")
    runs = [subprocess.Popen([sys.executable, "-c", CROWD, str(tmp_path), who], stderr=subprocess.PIPE) for who in "12"]
    for run in runs:
        _, stderr = run.communicate(timeout=60)
        assert run.returncode == 0, stderr.decode()


def test_versions_that_nobody_uses_go(tmp_path: Path) -> None:
    for version in ("stale", "recent", "mine"):
        DiskCache(tmp_path, version).write("notes", "k", b"text")
    (tmp_path / "1").mkdir()
    unfinished = tmp_path / "2" / "mine" / "notes" / "k.1.2.tmp"
    unfinished.write_bytes(b"half")
    long_ago = time.time() - prune.STALE - 10
    for place in (tmp_path / "2" / "stale", tmp_path / "2" / "mine", tmp_path / "1", unfinished):
        os.utime(place, (long_ago, long_ago))
    prune.prune(str(tmp_path), str(tmp_path / "2"), "mine", 1_000_000)
    assert sorted(p.name for p in (tmp_path / "2").iterdir()) == ["mine", "pruned", "recent"]
    assert not (tmp_path / "1").exists() and not unfinished.exists()
    assert DiskCache(tmp_path, "mine").read("notes", "k") == b"text"


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.write("notes", "k", b"text")
    future = time.time() + 10 * 365 * 86400
    for place in (tmp_path / "2" / "any" / "notes" / "k", tmp_path / "2" / "any", tmp_path / "2" / "pruned"):
        os.utime(place, (future, future))
    cache = DiskCache(tmp_path)
    assert prune.is_due(cache.root)
    cache.write("notes", "l", b"more")
    assert (cache.read("notes", "k"), cache.read("notes", "l")) == (b"text", b"more")


def test_what_is_loaded_stays_usable_when_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path))
    function = metalcore.Library(SOURCE).function("k")
    out = np.zeros(2, np.float32)
    function(out, threads=2)
    assert prune.clear(str(tmp_path), ("2",))[0] > 3
    out[:] = 0
    function(out, threads=2)
    assert out.tolist() == [3, 3]
    with metalcore.mode("fast"):  # other code, compiled now, into a folder that is gone
        function(out, threads=2)
    assert out.tolist() == [3, 3]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path))
    DiskCache(tmp_path).write("notes", "k", b"text")
    (tmp_path / "mine.txt").write_text("stays")

    def say(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "metalcore", "cache", *words], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    code, text = say()
    assert code == 0 and str(tmp_path) in text and "of at most 2048" in text
    tmp_path.chmod(0o777)
    code, text = say()
    assert code == 1 and "chmod go-w" in text
    code, text = say("--clear")
    assert code == 0 and "removed 2 files" in text
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
