"""A pytest plug-in for `python -m tests.sanitizer.false_alarms`: every launch of each test in sanitize mode, what was
found written down as lines of JSON. Unlike `--metal-sanitize` it emulates no Mac and fails no test."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from metalcore.engine.checks.report import Finding, Report
from metalcore.engine.modes import sanitize_process

_failure = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--collect-findings", metavar="FILE", help="Where what is found goes; each process adds its number."
    )
    parser.addoption("--collect-seed", type=int, default=None, help="schedule_seed of sanitize mode.")


def _write(item: pytest.Item, line: dict[str, Any]) -> None:
    path = Path(f"{item.config.getoption('--collect-findings')}.{os.getpid()}")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": item.nodeid, **line}) + "\n")


def _plain(finding: Finding) -> dict[str, Any]:
    other = finding.other
    return {
        "kind": finding.kind,
        "kernel": finding.kernel,
        "file": finding.file,
        "line": finding.line,
        "other": f"{other.access} at {other.file}:{other.line}" if other else "",
        "count": finding.count,
        "text": str(finding),
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _write(item, {"state": "started"})  # a test that kills the process leaves only this
    with sanitize_process(Report(schedule_seed=item.config.getoption("--collect-seed"))) as report:
        result = yield
    line = {"state": "failed" if item.stash.get(_failure, "") else "ended", "why": item.stash.get(_failure, "")}
    _write(item, {**line, "launches": report.launches, "findings": [_plain(f) for f in report.findings]})
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    written = yield
    if written.failed and call.excinfo is not None:
        item.stash[_failure] = f"{call.excinfo.typename}: {call.excinfo.value}".splitlines()[0][:200]
    return written
