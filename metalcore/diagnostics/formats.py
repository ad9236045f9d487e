"""`render`: findings as text, JSON, SARIF or GitHub annotations. The same findings give the same bytes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from metalcore.diagnostics.kinds import KINDS
from metalcore.diagnostics.model import Diagnostic, Related, Rule
from metalcore.diagnostics.sources import Lines, locate

FORMATS = ("text", "json", "sarif", "github")
LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Document:
    """What every format starts from: findings in order, at the places that a reader can open."""

    diagnostics: tuple[Diagnostic, ...]
    lines: Lines
    rules: tuple[Rule, ...]
    tool: str
    root: str

    def shown(self, file: str) -> str:
        """A path relative to the root where the file is inside it; names such as `<metal 1a2b3c4d>` as they are."""
        if file.startswith("<") or not os.path.isabs(file):
            return file.replace(os.sep, "/")
        inside = file.startswith(self.root.rstrip(os.sep) + os.sep)
        return (os.path.relpath(file, self.root) if inside else file).replace(os.sep, "/")


def render(
    diagnostics: Iterable[Diagnostic],
    format: str,
    *,
    colour: bool = False,
    sources: Mapping[str, str] | None = None,
    tool: str = "metalcore sanitize",
    rules: Iterable[Rule] | None = None,
    root: str | None = None,
) -> str:
    """Findings in one of FORMATS. `sources` gives the text of names that are no files, `rules` the rules that SARIF
    lists (default: the kinds of sanitize mode), `root` the folder that paths are relative to (default: the current).

    >>> from metalcore.diagnostics import Diagnostic
    >>> found = Diagnostic("race", "error", "<k>", 2, 3, "two threads write", kernel="k")
    >>> print(render([found], "text", sources={"<k>": "void k() {\\n  x = 1;\\n}"}))
    error[race]: two threads write
     --> <k>:2:3
      |
    1 | void k() {
    2 |   x = 1;
      |   ^
    3 | }
      = kernel: k
    <BLANKLINE>
    metalcore sanitize: 1 error
    <BLANKLINE>
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: the formats are {', '.join(FORMATS)}")
    lines = Lines(sources)
    found = tuple(sorted((_placed(each, lines) for each in diagnostics), key=_order))
    listed = tuple(rules) if rules is not None else _kinds()
    document = Document(found, lines, listed, tool, os.path.abspath(root) if root is not None else _folder())
    if format == "text":
        from metalcore.diagnostics.text import write_text

        return write_text(document, colour)
    if format == "json":
        from metalcore.diagnostics.plain import write_json

        return write_json(document)
    if format == "sarif":
        from metalcore.diagnostics.sarif import write_sarif

        return write_sarif(document)
    from metalcore.diagnostics.github import write_github

    return write_github(document)


def placed(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings at places that a reader can open, as `render` shows them; fit to be sent to another process."""
    lines = Lines()
    return [_placed(diagnostic, lines) for diagnostic in diagnostics]


def merge(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Findings of several reports, the same ones counted together; `diagnostics` are placed."""
    found: dict[object, Diagnostic] = {}
    for each in diagnostics:
        key = (each.rule, each.kernel, each.file, each.line, each.column, tuple((r.file, r.line) for r in each.related))
        known = found.get(key)
        if known is None:
            found[key] = each
        else:
            count = known.properties.get("count", 1) + each.properties.get("count", 1)
            found[key] = replace(known, properties={**known.properties, "count": count})
    return list(found.values())


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """How many there are of each level: `2 errors, 1 warning`.

    >>> summary([])
    'nothing found'
    """
    counts = Counter(each.level for each in diagnostics)
    parts = [f"{counts[level]} {level}{'s' * (counts[level] > 1)}" for level in LEVELS if counts[level]]
    return ", ".join(parts) or "nothing found"


def details(diagnostic: Diagnostic) -> list[tuple[str, str]]:
    """Who did it, where in the grid and in which buffer, for a reader: (what, words)."""
    known = diagnostic.properties
    rows = [("kernel", diagnostic.kernel)] if diagnostic.kernel else []
    if "thread" in known:
        parts = [f"{_position(known['thread'])} of the grid"]
        if "threadgroup" in known:
            parts.append(f"threadgroup {_position(known['threadgroup'])}")
        parts += [f"{name} {known[name]}" for name in ("simdgroup", "lane") if name in known]
        rows.append(("thread", ", ".join(parts)))
    if "buffer" in known:
        words = [f"'{known['buffer']}'"]
        if "index" in known:
            words.append(f"index {known['index']}")
        if "access" in known:
            words.append(str(known["access"]))
        rows.append(("buffer", ", ".join(words)))
    if "launched" in known:
        rows.append(("launched", f"at {known['launched']}"))
    if known.get("count", 1) > 1:
        rows.append(("again", f"{known['count'] - 1} more of the same"))
    return rows


def _position(value: Iterable[int]) -> str:
    return f"({', '.join(map(str, value))})"


def _placed(diagnostic: Diagnostic, lines: Lines) -> Diagnostic:
    """The diagnostic at the place that a reader can open, with columns in characters."""

    def place(file: str, line: int, column: int) -> tuple[str, int, int]:
        file, line, column = locate(diagnostic.source, file, line, column)
        return file, line, lines.column(file, line, column)

    file, line, column = place(diagnostic.file, diagnostic.line, diagnostic.column)
    related = tuple(Related(*place(r.file, r.line, r.column), r.message) for r in diagnostic.related)
    return replace(diagnostic, file=file, line=line, column=column, related=related, source="")


def _order(diagnostic: Diagnostic) -> tuple[object, ...]:
    d = diagnostic
    related = [(r.file, r.line, r.column, r.message) for r in d.related]
    return d.file, d.line, d.column, d.rule, d.kernel, d.message, related, sorted(map(str, d.properties.items()))


def _kinds() -> tuple[Rule, ...]:
    return tuple(Rule(kind.id, kind.title, kind.remedy, kind.level) for kind in KINDS.values())


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed under the program
        return os.sep
