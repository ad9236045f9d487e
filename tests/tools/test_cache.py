"""metalcore cache: what it shows, and what --prune and --clear remove."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from metalcore.engine.store.cache import disk_cache
from metalcore.tools.cli import cli


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["cache", *words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.feature("API", "metalcore cache: size, limit, pruning")
def test_size_limit_and_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("METALCORE_CACHE_SIZE", "8")
    cache = disk_cache()
    for i in range(6):
        cache.write("notes", f"k{i}", b"x" * 500_000)
        path = Path(cache.root) / cache.version / "notes" / f"k{i}"
        os.utime(path, (path.stat().st_mtime - 1000 + i,) * 2)
    assert ", 3.0 MB of at most 8, this user's alone" in run()
    assert "removed 0 files" in run("--prune")
    monkeypatch.setenv("METALCORE_CACHE_SIZE", "2")
    assert "1.5 MB of at most 2" in run("--prune")
    assert [i for i in range(6) if cache.read("notes", f"k{i}")] == [3, 4, 5]  # the last ones that were used
    assert ", 1.5 MB of at most 2," in run()
    assert "removed" in run("--clear") and ": 0 files, 0.0 MB of at most 2" in run()
