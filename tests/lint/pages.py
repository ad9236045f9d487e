"""The pages of docs/rules as test data: the wrong and the right code of each rule."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from metalcore.diagnostics import Diagnostic
from metalcore.lint import RULES, Options, Outcome, Source, lint

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"
PREFIX = "#include <metal_stdlib>\nusing namespace metal;\n"
ALONE = ("used-before-defined",)  # does not compile, so it cannot share a file with the others


def code(rule: str, which: str) -> str:
    """The block under the heading `## Wrong` or `## Right`."""
    page = (FOLDER / f"{rule}.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {which}\n```metal\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{rule}.md has no {which.lower()} code"
    return found[1]


def run(text: str, name: str = "page.metal", **options: object) -> Outcome:
    """What the linter says of a text."""
    return lint(Source(name, text), Options(**options))  # type: ignore[arg-type]


@cache
def together(which: str) -> tuple[dict[str, range], list[Diagnostic]]:
    """All pages' code in one file, compiled once: the lines of each rule, and the findings."""
    text, lines = PREFIX, {}
    # A pragma holds until the end of the file.
    for rule in sorted(set(RULES) - set(ALONE), key=lambda r: "#pragma" in code(r, which)):
        start = text.count("\n") + 1
        text += code(rule, which)
        lines[rule] = range(start, text.count("\n") + 1)
    outcome = run(text)
    assert outcome.error is None, outcome.error
    return lines, outcome.diagnostics


def found(rule: str, which: str) -> list[tuple[str, int]]:
    """Rule and line, counted from the start of the block, of each finding in a page's code."""
    if rule in ALONE:
        outcome = run(PREFIX + code(rule, which))
        assert outcome.error is None, outcome.error
        return [(d.rule, d.line - PREFIX.count("\n")) for d in outcome.diagnostics]
    lines, diagnostics = together(which)
    mine = lines[rule]
    return [(d.rule, d.line - mine.start + 1) for d in diagnostics if d.line in mine]


def expected(rule: str) -> int:
    """The line of the wrong code that says `here`."""
    marked = [n for n, line in enumerate(code(rule, "Wrong").splitlines(), 1) if line.endswith(" here")]
    assert len(marked) == 1, f"{rule}.md must mark one line"
    return marked[0]
