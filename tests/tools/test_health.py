"""`metalcore health`: a real run of one op, its reports, and how failures show."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from metalcore.errors import ArgumentError
from metalcore.health.page import page
from metalcore.health.report import as_json, as_junit, rows
from metalcore.health.run import groups
from metalcore.health.verify import Measure, Outcome
from metalcore.tools.cli import cli


def test_one_op_is_run_and_reported(tmp_path: Path) -> None:
    files = {kind: tmp_path / f"health.{kind}" for kind in ("json", "junit", "html")}
    words = ["health", "rms_norm", "-d", "float32", "-r", "torch", "-r", "numpy", "-n", "3", "-j", "1"]
    done = CliRunner().invoke(cli, [*words, *(w for k, p in files.items() for w in (f"--{k}", str(p)))])
    assert done.exit_code == 0, done.output
    assert "all 6 cases pass" in done.output
    data = json.loads(files["json"].read_text())
    assert data["passed"] and len(data["cases"]) == 6
    assert {row["route"] for row in data["rows"]} == {"torch", "numpy"}
    tests = list(ElementTree.fromstring(files["junit"].read_text()).iter("testcase"))
    assert len(tests) == 6 and not list(tests[0])
    assert "<svg" in files["html"].read_text()


def _outcome(error: float, problem: str = "") -> Outcome:
    measure = Measure("gradient 0", error, torch_error=1e-7, limit=3e-7)
    return Outcome("rms_norm", "float32", "torch", 4, "3x5", (measure,), 0.01, problem)


@pytest.mark.parametrize("bad", [_outcome(4e-7), _outcome(float("nan")), _outcome(0.0, "ValueError: no")])
def test_a_failure_shows_in_every_report(bad: Outcome) -> None:
    outcomes = [_outcome(1e-7), bad]
    assert [row.failed for row in rows(outcomes)] == [1]
    assert json.loads(as_json(outcomes, 1))["passed"] is False
    assert [f.get("message") for f in ElementTree.fromstring(as_junit(outcomes)).iter("failure")] == [bad.explain()]
    assert "1 of 2 cases fail" in page(outcomes, 1)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"there is no op 'rms'; there are .*rms_norm"):
        groups(["rms"])
    with pytest.raises(ArgumentError, match="there is no dtype 'float64'"):
        groups(["rms_norm"], ["float64"])
