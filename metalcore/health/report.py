"""What health found, as a table, JSON and JUnit's XML."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree

from metalcore.health.verify import Outcome
from metalcore.version import VERSION


@dataclass(frozen=True)
class Row:
    """The cases of one op, dtype and route together."""

    noun: str
    dtype: str
    route: str
    cases: int
    failed: int
    worst: float
    """The largest error over what is allowed: below 1 is good."""
    against_torch: float
    """The largest error over torch's, where torch's is above the rounding of the dtype."""
    seconds: float


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    grouped: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.noun, outcome.dtype, outcome.route), []).append(outcome)
    return [_row(*key, found) for key, found in sorted(grouped.items())]


def _row(noun: str, dtype: str, route: str, found: list[Outcome]) -> Row:
    measures = [m for o in found for m in o.measures]
    worst = max((m.error / m.limit for m in measures if m.limit), default=0.0)
    ratios = [m.error / m.torch_error for m in measures if m.torch_error > 0 and m.error > m.limit / 4]
    failed = sum(not o.passed for o in found)
    seconds = sum(o.seconds for o in found)
    return Row(noun, dtype, route, len(found), failed, worst, max(ratios, default=0.0), seconds)


def as_json(outcomes: list[Outcome], seed: int) -> str:
    """Rows, and every case with its errors."""
    data: dict[str, Any] = {
        "metalcore": VERSION,
        "machine": f"{platform.system()} {platform.machine()}",
        "seed": seed,
        "passed": all(o.passed for o in outcomes),
        "rows": [asdict(row) for row in rows(outcomes)],
        "cases": [_plain(asdict(o) | {"passed": o.passed}) for o in outcomes],
    }
    return json.dumps(_plain(data), indent=1)


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def as_junit(outcomes: list[Outcome]) -> str:
    """A test suite an op, a test a case."""
    root = ElementTree.Element("testsuites", name="metalcore health")
    by_noun: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_noun.setdefault(outcome.noun, []).append(outcome)
    for noun, found in sorted(by_noun.items()):
        failures = sum(not o.passed for o in found)
        suite = ElementTree.SubElement(root, "testsuite", name=noun, tests=str(len(found)), failures=str(failures))
        for o in found:
            name = f"{o.dtype} case {o.index} ({o.label})"
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{noun}.{o.route}", name=name, time=f"{o.seconds:.4f}"
            )
            if not o.passed:
                ElementTree.SubElement(case, "failure", message=o.explain())
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
