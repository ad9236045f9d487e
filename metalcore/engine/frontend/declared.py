"""Finds what kernels declare about their launches in comments (`// metalcore: requires(...)`), which clang drops.

A declaration belongs to the kernel in whose text it stands, or to the one that follows it with nothing but comments
between. Above a template it holds for all its instantiations. One that belongs to no kernel is an error, unless the
preprocessor has dropped the code around it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from metalcore.engine.frontend.diagnostics import Sources, at, lines_of
from metalcore.engine.frontend.kernels import Definition
from metalcore.engine.frontend.tokens import Tokens, unescape
from metalcore.launch.declaration import REQUIRES, Requirement
from metalcore.launch.expression import Expression, ExpressionError
from metalcore.launch.requirements import find

_MARK = "metalcore:"
_LINE = re.compile(r'\s*#\s*(?:line\s+)?(\d{1,10})(?:\s+"((?:[^"\\]|\\.)*)")?')


@dataclass(frozen=True)
class Declared:
    """A declaration, and the place of the first code behind it (or beside it)."""

    requirement: Requirement
    code: tuple[str, int]


def declarations(sources: Sources) -> list[Declared]:
    """Those of the source and of the files that it includes."""
    texts = [(sources.main, sources.text), *((path, sources.included(path)) for path in sources.includes)]
    return [found for file, text in texts if _MARK in text for found in _in_text(file, text, sources)]


def _in_text(file: str, text: str, sources: Sources) -> Iterator[Declared]:
    waiting: list[Requirement] = []  # for the code behind them
    for place, number, line in _placed_lines(file, text, sources):
        comment = _comment(line)
        found = _requirements(comment, place, number, sources) if _MARK in comment else []
        if line[: len(line) - len(comment)].strip():
            yield from (Declared(requirement, (place, number)) for requirement in waiting + found)
            waiting = []
        else:
            waiting += found
    yield from (Declared(requirement, (requirement.file, requirement.line)) for requirement in waiting)


def _placed_lines(file: str, text: str, sources: Sources) -> Iterator[tuple[str, int, str]]:
    """Each line with its file and number, as #line directives have them."""
    number = 0
    for line in lines_of(text):
        number += 1
        place = _LINE.match(line)
        if place:
            number = int(place[1]) - 1
            file = sources.name(unescape(place[2])) if place[2] is not None else file
        else:
            yield file, number, line


def _requirements(comment: str, file: str, number: int, sources: Sources) -> list[Requirement]:
    try:
        found = [Requirement(word, expression, note, file, number) for word, expression, note in find(comment)]
        for requirement in found:
            if requirement.word == REQUIRES:
                Expression(requirement.expression)  # what is no expression shows here
        return found
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
    found = list(found)
    if not found:
        return
    owners: dict[tuple[str, int], list[Definition]] = {}  # of each line of code
    active = set()
    for i, text in enumerate(tokens.text):
        if text and text[0] != "#":
            active.add(_absolute(*tokens.where(i)))
    for definition in definitions:
        places = {_absolute(*tokens.where(i)) for i in range(definition.start, definition.end + 1)}
        for place in places:
            owners.setdefault(place, []).append(definition)
    for declared in found:
        requirement = declared.requirement
        place = _absolute(*declared.code)
        for definition in owners.get(place, ()):
            definition.requirements.append(requirement)
        if place in active and place not in owners:
            text = f"'metalcore: {requirement.word}(...)' belongs to no kernel: put it above or inside one"
            raise at(requirement.file, requirement.line, text, sources)


def _absolute(file: str, line: int) -> tuple[str, int]:
    return (file if file.startswith("<") else os.path.abspath(file)), line
