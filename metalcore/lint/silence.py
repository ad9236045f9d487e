"""Comments that silence rules, for a line (`// metalcore: silence(rule)`) or a file (`silence-file(rule)`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from metalcore.diagnostics import Diagnostic
from metalcore.lint.registry import RULES, unknown

_COMMENT = re.compile(r"//\s*metalcore:\s*(silence(?:-file)?)\s*\(([^)\n]*)\)")
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@dataclass
class Silences:
    """What the comments of one file ask for."""

    lines: dict[int, set[str]] = field(default_factory=dict)
    file: set[str] = field(default_factory=set)
    unknown: list[Diagnostic] = field(default_factory=list)

    def covers(self, rule: str, line: int) -> bool:
        """Whether findings of *rule* on *line* are silenced."""
        return rule in self.file or rule in self.lines.get(line, ())


def read(file: str, text: str) -> Silences:
    """The silencing comments of *text*; one that stands alone on its line speaks of the next line of code."""
    found = Silences()
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if "metalcore:" not in line:
            continue
        for match in _COMMENT.finditer(_LITERAL.sub(lambda m: " " * len(m[0]), line)):
            for rule, column in _names(match):
                if rule not in RULES:
                    found.unknown.append(
                        Diagnostic(
                            "unknown-rule",
                            RULES["unknown-rule"].level,
                            file,
                            number,
                            column,
                            unknown(rule),
                            remedy=RULES["unknown-rule"].remedy,
                        )
                    )
                elif match[1] == "silence-file":
                    found.file.add(rule)
                else:
                    for covered in _covered(lines, number):
                        found.lines.setdefault(covered, set()).add(rule)
    return found


def _names(match: re.Match[str]) -> Iterator[tuple[str, int]]:
    for piece in re.finditer(r"[^\s,]+", match[2]):
        yield piece[0], match.start(2) + piece.start() + 1


def _covered(lines: list[str], number: int) -> list[int]:
    """The comment's own line and, where nothing else stands there, the next line that is no comment."""
    if not lines[number - 1].lstrip().startswith("//"):
        return [number]
    below = number
    while below < len(lines) and (not lines[below].strip() or lines[below].lstrip().startswith("//")):
        below += 1
    return [number, below + 1]
