"""Finds what kernels declare about their launches in comments (`// metalcore: requires(...)`), which clang drops.

A declaration belongs to the kernel in whose text it stands, or to the one that follows it with nothing but comments
between. Above a template it holds for all its instantiations. One that belongs to no kernel is an error, unless the
preprocessor has dropped the code around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from metalcore.engine.frontend.diagnostics import Sources, at
from metalcore.engine.frontend.kernels import Definition
from metalcore.engine.frontend.tokens import Tokens
from metalcore.launch.declaration import REQUIRES, Requirement
from metalcore.launch.expression import Expression, ExpressionError
from metalcore.launch.requirements import find

_MARK = "metalcore:"
_LINE = re.compile(r'\s*#\s*(?:line\s+)?(\d+)(?:\s+"((?:[^"\\]|\\.)*)")?')
_ONLY_COMMENT = re.compile(r"\s*(?://.*|/\*.*|\*.*)?$")


@dataclass(frozen=True)
class Declared:
    """A declaration, and the first line of code behind it (or its own, where it stands beside code)."""

    requirement: Requirement
    code_line: int


def declarations(sources: Sources, includes: Iterable[str]) -> list[Declared]:
    """Those of the source and of the files that it includes."""
    texts = [(sources.main, sources.text)]
    for path in includes:
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append((path, file.read()))
    return [found for file, text in texts if _MARK in text for found in _in_text(file, text, sources)]


def _in_text(file: str, text: str, sources: Sources) -> Iterator[Declared]:
    lines = text.splitlines()
    number = 0
    for i, line in enumerate(lines):
        number += 1
        place = _LINE.match(line)
        if place:  # the lines behind it have the numbers that it says
            number = int(place[1]) - 1
            file = place[2] if place[2] is not None else file
            continue
        comment = _comment(line)
        if _MARK not in comment:
            continue
        ahead = 0
        if not line[: len(line) - len(comment)].strip():
            ahead = 1
            while i + ahead < len(lines) and _ONLY_COMMENT.match(lines[i + ahead]):
                ahead += 1
        try:
            for word, expression, note in find(comment):
                if word == REQUIRES:
                    Expression(expression)  # what is no expression shows here
                yield Declared(Requirement(word, expression, note, file, number), number + ahead)
        except ExpressionError as error:
            raise at(file, number, str(error), sources) from None


def _comment(line: str) -> str:
    """The comment of a line, with its slashes; a line inside /* */ counts as a whole."""
    starts = [where for where in (line.find("//"), line.find("/*")) if where >= 0]
    if starts:
        return line[min(starts) :]
    return line.lstrip() if line.lstrip().startswith(("*", _MARK)) else ""


def attach(found: Iterable[Declared], definitions: Iterable[Definition], tokens: Tokens, sources: Sources) -> None:
    """Give each declaration to its kernel."""
    places: list[tuple[str, int, int, Definition]] = []
    for definition in definitions:
        file, first = tokens.where(definition.start)
        places.append((file, first, tokens.where(definition.end)[1], definition))
    active: set[tuple[str, int]] | None = None
    for declared in found:
        requirement = declared.requirement
        owners = [
            definition
            for file, first, last, definition in places
            if file == requirement.file and first <= declared.code_line <= last
        ]
        for definition in owners:
            definition.requirements.append(requirement)
        if owners:
            continue
        if active is None:
            active = {tokens.where(i) for i, text in enumerate(tokens.text) if text and text[0] != "#"}
        if (requirement.file, declared.code_line) in active:
            text = f"'metalcore: {requirement.word}(...)' belongs to no kernel: it stands above or inside one"
            raise at(requirement.file, requirement.line, text, sources)
