"""The generated parts of docs/linalg.md.

python -m tests.linalg.table                the list of functions
python -m tests.linalg.table health.json    and the table of accuracy, from metalcore health --linalg --json health.json
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metalcore.health.linalg.command import worst_ratios
from metalcore.health.verify import Measure, Outcome
from metalcore.ops import find, functions, nouns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "linalg.md"
FUNCTIONS = "<!-- functions -->"
ACCURACY = "<!-- accuracy: python -m tests.linalg.table health.json -->"
END = "<!-- end -->"


def with_functions(page: str) -> str:
    return _put(page, FUNCTIONS, "\n".join(_lines()))


def with_accuracy(page: str, report: dict[str, Any]) -> str:
    return _put(page, ACCURACY, "\n".join(_accuracy(report)))


def _put(page: str, begin: str, text: str) -> str:
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n{text}\n{END}{rest.split(END, 1)[1]}"


def _lines() -> Iterable[str]:
    yield "| function | what it gives | gradient | takes the place of |"
    yield "|---|---|---|---|"
    for name, run in sorted(functions("linalg").items()):
        parameters = [p.replace(annotation=p.empty) for p in inspect.signature(run).parameters.values()]
        signature = f"{name}{inspect.Signature(parameters)}"
        words = (inspect.getdoc(run) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        noun = f"linalg_{name}"
        op = find(noun) if noun in nouns("linalg") else None
        gradient = "by its parts" if op is None else ", ".join(op.gradients) or "-"
        replaces = f"`{op.namesake}`" if op is not None and op.namesake else "-"
        yield f"| `{signature}` | {words} | {gradient} | {replaces} |"


def _accuracy(report: dict[str, Any]) -> Iterable[str]:
    outcomes = [_outcome(case) for case in report["cases"]]
    columns, table = worst_ratios(outcomes)
    failed = sum(not o.passed for o in outcomes)
    yield f"{len(outcomes)} cases, {failed} above what is allowed. The worst ratio of each family:"
    yield ""
    yield f"| kind of matrix | {' | '.join(columns)} |"
    yield "|---|" + "--:|" * len(columns)
    for kind, row in table.items():
        yield f"| {kind} | " + " | ".join(f"{row[c]:.2g}" if c in row else "" for c in columns) + " |"
    for outcome in (o for o in outcomes if not o.passed):
        yield f"\n- {outcome.explain()}"


def _outcome(case: dict[str, Any]) -> Outcome:
    measures = tuple(
        Measure(m["name"], float(m["error"]), float(m["torch_error"]), float(m["limit"])) for m in case["measures"]
    )
    plain = {k: case[k] for k in ("noun", "dtype", "route", "index", "label", "seconds", "problem")}
    return Outcome(measures=measures, **plain)


def main() -> int:
    page = with_functions(PAGE.read_text())
    if sys.argv[1:]:
        page = with_accuracy(page, json.loads(Path(sys.argv[1]).read_text()))
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
