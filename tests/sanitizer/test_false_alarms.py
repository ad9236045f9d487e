"""Two kernels of the demo raise no alarm; and the command that runs all correct kernels counts right.

All others are for that command, `python -m tests.sanitizer.false_alarms`, which takes long.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import metalcore
from metalcore.tools import demo
from tests.sanitizer import false_alarms
from tests.sanitizer.false_alarms import EXPECTED, KNOWN, PARTS, ROOT, Expected, Outcome, expected, is_known, short

SHORT = [case for case in demo._cases(64) if case.name in ("softmax", "histogram")]  # barriers, atomics


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_no_alarm_in_the_demo(case: demo.Case) -> None:
    with metalcore.mode("sanitize") as report:
        good, row = demo._run(demo.examples(), case, 1)
    assert good, row
    assert report.launches == 2
    assert not report.findings, str(report)


def line(test: str, state: str, *kinds: str, why: str = "") -> str:
    place = {"kernel": "k", "file": "/far/away/in/a/folder/x.metal", "line": 3}
    found = [{"kind": kind, "other": "", "count": 1, "text": "", **place} for kind in kinds]
    entry: dict[str, Any] = {"test": test, "state": state}
    if state != "started":
        entry |= {"launches": 2, "why": why, "findings": found}
    return json.dumps(entry)


def test_what_is_counted() -> None:
    outcome = Outcome()
    outcome.read([line("a", "started"), line("a", "ended", "race"), line("b", "started"), line("b", "ended")])
    outcome.read([line("c", "started"), line("c", "failed", "race", why="E: x"), line("d", "started")])
    assert (outcome.tests, outcome.launches, outcome.crashed) == (3, 6, ["d"])
    assert outcome.failed == {"c": "E: x"}
    assert {key: len(found) for key, found in outcome.alarms.items()} == {("race", "a/folder/x.metal:3"): 2}
    assert not outcome.clean
    assert Outcome().clean


def test_what_is_expected_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (Expected("tests/x.py::f*", "race", "why"), Expected("tests/x.py::g", "failed", "why"))
    monkeypatch.setattr(false_alarms, "EXPECTED", listed)
    outcome = Outcome()
    outcome.read([line("tests/x.py::f[1]", "ended", "race"), line("tests/x.py::g", "failed")])
    assert outcome.clean
    assert list(outcome.expected.values()) == [1, 1]
    assert expected("tests/x.py::f[1]", "misaligned") is None


def test_every_entry_has_a_reason_and_a_test_that_exists() -> None:
    for entry in EXPECTED:
        file, _, name = entry.where.partition("::")
        assert entry.reason
        assert f"def {name.partition('[')[0].rstrip('*')}" in (ROOT / file).read_text()
    for tests in PARTS.values():
        assert all((ROOT / test.partition("::")[0]).exists() for test in tests)
    assert all(entry.reason for entry in KNOWN)
    assert is_known("metal/kernels/gemv.h:226", "wrong-fence") and not is_known("metal/kernels/gemv.h:226", "race")
    assert expected("tests/sanitizer/alarm_runs.py::test_stress[13]", "inactive-lane")
    assert not expected("tests/sanitizer/alarm_runs.py::test_stress[113]", "inactive-lane")


def test_paths_are_cut() -> None:
    assert short("<metal>") == "<metal>"
    assert short("/a/b/c/d.h") == "b/c/d.h"
