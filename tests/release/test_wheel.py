"""A wheel as setup.py makes it, what the inspection finds wrong with one, and the places that must agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import metalcore
from metalcore.engine.store.identity import ENGINE, _files
from release import platforms, version, wheels
from release.inspection import ELF, MACHO, Inspection, machine_of
from release.wanted import wanted

ROOT = Path(__file__).resolve().parents[2]
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = platforms.find("linux-x86_64")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree with a store that holds nothing but its facts."""
    tree, parts = tmp_path_factory.mktemp("tree") / "tree", tmp_path_factory.mktemp("parts")
    for processor in WHEEL.processors:
        folder = parts / "prebuilt" / processor.name
        folder.mkdir(parents=True)
        facts = {"system": "Linux", "machine": "x86_64", "flags": processor.flags, "rank": processor.rank}
        (folder / "store.json").write_text(json.dumps({**facts, "libraries": {}}))
    tree.mkdir()
    for name in ("metalcore", "examples"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "prebuilt"))
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree)
    environment = {**os.environ, "METALCORE_WHEEL_PARTS": str(parts), "METALCORE_WHEEL_PLATFORM": WHEEL.tag}
    program = f"from setuptools.build_meta import build_wheel; build_wheel({str(tree.parent)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = tree.parent.glob("*.whl")
    return made


def test_a_wheel_of_this_tree(built: Path) -> None:
    assert built.name == f"metalcore_kernels-{metalcore.__version__}-py3-none-manylinux_2_17_x86_64.whl"
    found = Inspection(built)
    assert found.problems == [] and found.counts == {"x86-64-v3": 0, "avx512-vbmi2": 0}
    parts = ("the kernels", "runtime.so", "sanitizer.so")
    assert found.missing == [f"{name}: {part}" for name in found.counts for part in parts]
    names = set(found.names)
    # The stores are for an engine by the hash of its files: a file that is left out would make them useless.
    assert {f"metalcore/engine/{os.path.relpath(entry.path, ENGINE)}" for entry in _files(ENGINE)} <= names
    examples = {f"metalcore/{path.relative_to(ROOT)}" for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert examples <= names and not any(name.startswith(("tests/", "release/")) for name in names)


def damaged(built: Path, folder: Path, name: str, data: bytes | None) -> Inspection:
    """The same wheel with another content of one file, or with one file more."""
    path = folder / built.name
    with zipfile.ZipFile(built) as old, zipfile.ZipFile(path, "w") as new:
        for each in old.namelist():
            if each != name:
                new.writestr(each, old.read(each))
        if data is not None:
            new.writestr(name, data)
    return Inspection(path)


def test_damage_is_found(built: Path, tmp_path: Path) -> None:
    kernel = "metalcore/kernels/rms_norm.metal"
    assert f"RECORD has another hash or size of {kernel}" in damaged(built, tmp_path, kernel, b"//").problems
    assert f"{kernel} is missing" in damaged(built, tmp_path, kernel, None).problems
    foreign = b"\x7fELF" + bytes(14) + b"\xb7\0" + bytes(12)
    stray = damaged(built, tmp_path, "metalcore/prebuilt/x86-64-v3/a.so", foreign)
    assert "metalcore/prebuilt/x86-64-v3/a.so is for ('Linux', 'aarch64')" in stray.problems
    assert "x86-64-v3: lists and files differ: ['a.so']" in stray.problems
    other = tmp_path / "metalcore_kernels-0.1.0-py3-none-any.whl"
    shutil.copy(built, other)
    assert "its name has none of the tags" in Inspection(other).problems[0]


def test_machines() -> None:
    for name, number in ELF.items():
        assert machine_of(b"\x7fELF" + bytes(14) + number.to_bytes(2, "little") + bytes(12)) == ("Linux", name)
    for name, number in MACHO.items():
        assert machine_of(b"\xcf\xfa\xed\xfe" + number.to_bytes(4, "little") + bytes(24)) == ("Darwin", name)


def test_one_version() -> None:
    assert "version" in PYPROJECT["project"]["dynamic"] and "version" not in PYPROJECT["project"]
    assert version.version() == metalcore.__version__
    assert version.problem(f"v{metalcore.__version__}") == ""
    assert "tag v" in version.problem("v99.0")


def test_licence() -> None:
    assert PYPROJECT["project"]["license"] == "MIT" and PYPROJECT["project"]["license-files"] == ["LICENSE"]
    assert (ROOT / "LICENSE").read_text().startswith("MIT License\n\nCopyright (c)")


def test_pythons_are_the_same_everywhere() -> None:
    said = {c.rpartition(" ")[2] for c in PYPROJECT["project"]["classifiers"] if re.search(r"Python :: 3\.\d", c)}
    assert said == {f"3.{minor}" for minor in range(10, 15)}
    tags = PYPROJECT["tool"]["cibuildwheel"]["build"].split()
    assert {f"3.{tag[3:-2]}" for tag in tags} == said
    assert "(3, 10) <= sys.version_info[:2] <= (3, 14)" in (ROOT / "scripts" / "setup").read_text()


def test_cibuildwheel_makes_the_same_wheels() -> None:
    overrides = PYPROJECT["tool"]["cibuildwheel"]["overrides"]
    made = {o["environment"]["METALCORE_WHEEL_PLATFORM"]: o["before-build"].split()[-2] for o in overrides}
    assert made == {each.tag: each.name for each in platforms.WHEELS}


def test_the_list_of_kernels_is_of_this_tree() -> None:
    """Cheap: each text includes a file that is there and instantiates a template of it."""
    rows = wanted()
    assert len({(row.text, row.name, row.constants) for row in rows}) == len(rows) > 100
    for row in rows:
        file = re.search(r'#include "([\w/]+\.metal)"', row.text)
        assert file is not None
        template = re.search(r"decltype\((\w+)<", row.text)
        text = (ROOT / "metalcore" / "kernels" / file[1]).read_text()
        assert template is None or re.search(rf"\b{template[1]}\b", text), row.name
    assert {"rms_norm_forward_float_float_1", "rms_norm_forward_half_half_1"} <= {row.name for row in rows}


def test_what_a_build_leaves_out() -> None:
    kept = set(os.listdir(ROOT)) - set(shutil.ignore_patterns(*wheels._LEFT_OUT)(str(ROOT), os.listdir(ROOT)))
    assert {"metalcore", "examples", "tests", "docs", "scripts", "benchmarks", "release", ".github", ".ci"} <= kept
    assert not kept & {".git", ".venv", "build", "dist"}
