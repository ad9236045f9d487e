"""A cache for one test alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from metalcore.engine.frontend import toolchain


def use_own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is empty from now on, but for the precompiled header: to make it takes longer than most tests."""
    for key, path in toolchain.precompiled(toolchain.language_flags("safe", optimised=True)).items():
        monkeypatch.setitem(toolchain.ready, key, path)
    monkeypatch.setenv("METALCORE_CACHE", str(folder))
