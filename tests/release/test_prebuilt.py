"""Kernels of a wheel: found without a compiler, and left aside where they do not fit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metalcore.engine import units
from metalcore.engine.library import Library
from metalcore.engine.model import Variant
from metalcore.engine.options import Source
from metalcore.engine.runtime import native_library
from metalcore.engine.store import prebuilt
from metalcore.engine.target import this_platform
from metalcore.runtimes.text import include_dirs
from release import stores, wanted
from release.platforms import WHEELS, Processor, Wheel

TEXT = """
#include "wide.h"
kernel void twice(
    device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = 2 * x[i];
}
"""
LINE = Variant.choose((64, 1, 1), True, (64, 1, 1))
OTHER = Variant.choose((32, 1, 1), True, (32, 1, 1))


def wheel() -> Wheel:
    """That of this machine, with the processor that every one of its kind can run."""
    (found,) = (w for w in WHEELS if w.platform == this_platform())
    return Wheel(found.name, found.tag, found.system, found.machine, found.processors[:1])


def source() -> Source:
    return Source(TEXT, None, include_dirs(), {}, "safe").settled()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """metalcore/prebuilt with one kernel and the runtime."""
    home = tmp_path_factory.mktemp("prebuilt")
    (processor,) = wheel().processors
    (home / processor.name).mkdir()
    row = wanted.Wanted(TEXT, False, "safe", "float", "twice", (), (LINE,))
    assert stores.make_unit_files([row], wheel(), str(home)) == 1
    libraries, problems = stores.make_libraries(processor, home / processor.name)
    assert not problems and len(libraries) == 2
    stores.write_facts(wheel(), processor, home / processor.name, libraries)
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it in place, beside an empty cache."""
    copy = tmp_path / "prebuilt"
    shutil.copytree(made, copy)
    monkeypatch.setattr(prebuilt, "HOME", str(copy))
    monkeypatch.setenv("METALCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("METALCORE_PREBUILT", raising=False)
    forget()
    yield copy
    forget()


def forget() -> None:
    prebuilt.stores.cache_clear()
    prebuilt._read_unit.cache_clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are compiled from here on."""
    names: list[str] = []
    original = units.SourceUnit._build

    def build(self: Any, key: str, name: str, *rest: Any) -> Any:
        names.append(name)
        return original(self, key, name, *rest)

    monkeypatch.setattr(units.SourceUnit, "_build", build)
    return names


def run(size: int = 64) -> None:
    library = Library(TEXT, include_dirs=include_dirs())
    x, y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    library.function("twice")(x, y, threads=size, group_size=size)
    assert (y == 2 * x).all()


def facts(home: Path, **changes: Any) -> None:
    (file,) = home.glob("*/store.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_nothing_is_compiled_and_nothing_written(home: Path, compiled: list[str], tmp_path: Path) -> None:
    unit = units.SourceUnit(source())
    assert unit.functions == ("twice",)
    assert [a.name for a in unit.signature("twice", ()).arguments] == ["x", "y", "i"]
    assert Path(unit.native("twice", (), LINE).path).parent.parent == home
    run()
    kinds = {path.parent.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert not compiled and kinds <= {"identity", "2"}, kinds


def test_another_variant_is_compiled_into_the_cache(home: Path, compiled: list[str], tmp_path: Path) -> None:
    unit = units.SourceUnit(source())
    native = unit.native("twice", (), OTHER)
    assert compiled == ["twice"] and Path(native.path).is_relative_to(tmp_path / "cache")
    # The source is known to the cache from now on, and the wheel still has its kernel.
    assert Path(units.SourceUnit(source()).native("twice", (), LINE).path).is_relative_to(home)
    assert compiled == ["twice"]


def test_the_cache_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(units, "used", {})  # as metalcore precompile does
    assert Path(units.SourceUnit(source()).native("twice", (), LINE).path).is_relative_to(tmp_path / "cache")
    monkeypatch.setattr(units, "used", None)
    assert Path(units.SourceUnit(source()).native("twice", (), LINE).path).is_relative_to(tmp_path / "cache")


@pytest.mark.parametrize("change", [{"flags": ["no-such-flag"]}, {"engine": "0" * 40}, {"machine": "vax"}])
def test_a_store_that_does_not_fit_is_left_aside(home: Path, change: dict[str, Any]) -> None:
    assert len(prebuilt.stores()) == 1
    assert prebuilt.prebuilt_library(native_library.content_key()) is not None
    facts(home, **change)
    prebuilt.stores.cache_clear()
    assert prebuilt.stores() == () and prebuilt.prebuilt_unit(source()) is None
    assert prebuilt.prebuilt_library(native_library.content_key()) is None


def test_it_can_be_switched_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METALCORE_PREBUILT", "0")
    assert prebuilt.stores() == ()


def test_a_changed_file_is_seen(home: Path, compiled: list[str]) -> None:
    (file,) = (path for path in home.glob("*/*.json") if path.name != "store.json")
    data = json.loads(file.read_text())
    (wide,) = (row for row in data["manifest"]["files"] if row[0].endswith("/kernels/wide.h"))
    assert wide[0] == f"{prebuilt.HERE}/kernels/wide.h"
    wide[1] = "0" * 64  # the file was another one when the kernel was made
    file.write_text(json.dumps(data))
    assert prebuilt.prebuilt_unit(source()) is None


def test_what_others_have_written_is_not_looked_for() -> None:
    own = source()
    assert prebuilt.unit_key(own) is not None
    assert prebuilt.unit_key(own._replace(include_dirs=(os.sep + "tmp",))) is None
    assert prebuilt.unit_key(own._replace(path=os.path.join(prebuilt.PACKAGE, "a.metal"))) is None
    assert prebuilt.unit_key(own) != prebuilt.unit_key(own._replace(math_mode="fast"))


def test_the_best_store_comes_first(home: Path) -> None:
    (first,) = home.iterdir()
    shutil.copytree(first, home / "better")
    facts_of = home / "better" / "store.json"
    facts_of.write_text(json.dumps({**json.loads(facts_of.read_text()), "rank": 5}))
    assert [Path(store.folder).name for store in prebuilt.stores()] == ["better", first.name]
    unit = prebuilt.prebuilt_unit(source())
    assert unit is not None and Path(unit.folder).name == "better"


def test_processors_name_features_that_linux_knows() -> None:
    flags = {"linux-x86_64": {"avx2", "fma", "avx512_vbmi2"}, "linux-aarch64": {"asimdhp"}, "macos-aarch64": set()}
    for each in WHEELS:
        assert {flag for p in each.processors for flag in p.flags} >= flags[each.name]
        ranks = [p.rank for p in each.processors]
        assert len(set(ranks)) == len(ranks)
    assert isinstance(WHEELS[0].processors[0], Processor)
