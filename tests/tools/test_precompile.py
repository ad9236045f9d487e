"""metalcore precompile: the library's kernels in the cache before anybody calls them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from metalcore.errors import ArgumentError
from metalcore.health.verify import verify
from metalcore.ops import find
from metalcore.tools.precompile import pieces

SAID = re.compile(r"1 ops, (\d+) kernels, (\d+) of them compiled now, [\d.]+ s\n$")


def run(cache: Path, *words: str) -> tuple[int, int]:
    """Kernels in all, and those that were compiled now."""
    environment = {**os.environ, "METALCORE_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "metalcore", "precompile", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = SAID.search(done.stdout)
    assert found, done.stdout
    return int(found[1]), int(found[2])


def kernels(cache: Path) -> set[Path]:
    return {path for path in cache.rglob("*.so") if path.parent.name == "kernels"}


@pytest.mark.feature("API", "metalcore precompile: the library's kernels ahead of time")
def test_it_fills_the_cache_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    words = ("softcap", "-d", "float32", "-j", "1")
    total, new = run(cache, *words)
    found = kernels(cache)
    assert total == new == len(found) > 0
    monkeypatch.setenv("METALCORE_CACHE", str(cache))
    assert verify(find("softcap"), "float32", 30).passed  # another case than those that were run
    assert kernels(cache) == found
    assert run(cache, *words) == (total, 0)
    found.pop().unlink()  # as pruning does
    assert run(cache, *words) == (total, 1)


def test_what_there_is() -> None:
    everything = pieces((), ())
    nouns = {piece.noun for piece in everything}
    assert {"rms_norm", "linalg_svd"} <= nouns and any(noun.startswith("precise_") for noun in nouns)
    assert [p.dtype for p in pieces(["rms_norm"], ["bfloat16"])] == ["bfloat16"]
    with pytest.raises(ArgumentError, match=r"no op 'rms_nrm'; there are .*rms_norm"):
        pieces(["rms_nrm"], [])
    with pytest.raises(ArgumentError, match="no dtype 'float8'"):
        pieces([], ["float8"])
