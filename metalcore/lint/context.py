"""What a rule reads and where it puts its findings."""

from __future__ import annotations

import re
from functools import cached_property

from metalcore.diagnostics import Diagnostic, Related
from metalcore.engine.frontend.diagnostics import is_ours
from metalcore.engine.frontend.kernels import Definition
from metalcore.engine.frontend.model import Kernel
from metalcore.engine.frontend.tokens import Tokens
from metalcore.lint.front import Front, Options, Preprocessed
from metalcore.lint.places import Place, Places
from metalcore.lint.program import Program
from metalcore.lint.registry import RULES
from metalcore.lint.tree import Tree


class Findings:
    """The findings of one file, each line once for each rule."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], Diagnostic] = {}

    def add(self, rule: str, place: Place, message: str, kernel: str = "", related: tuple[Related, ...] = ()) -> None:
        """Record what *rule* found; places that no file of the user has are left out."""
        if place.file.startswith("<") or is_ours(place.file):
            return
        about = RULES[rule]
        self._found.setdefault(
            (rule, place.file, place.line),
            Diagnostic(
                rule,
                about.level,
                place.file,
                place.line,
                place.column,
                message,
                kernel=kernel,
                remedy=about.remedy,
                related=related,
            ),
        )

    def all(self) -> list[Diagnostic]:
        """In the order of files and lines."""
        return sorted(self._found.values(), key=lambda d: (d.file, d.line, d.column, d.rule))


class Context:
    """One source for the rules that need it compiled."""

    def __init__(
        self,
        prepared: Preprocessed,
        front: Front,
        places: Places,
        tree: Tree,
        programs: list[Program],
        optimised: list[Program],
        findings: Findings,
    ) -> None:
        self.prepared, self.front, self.places, self.tree = prepared, front, places, tree
        self.programs, self.optimised, self.findings = programs, optimised, findings

    @property
    def options(self) -> Options:
        """What the user asked for."""
        return self.prepared.options

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[Tokens, Definition]]]:
        found: dict[str, list[tuple[Tokens, Definition]]] = {}
        for tokens, definition in self.prepared.definitions:
            found.setdefault(definition.name, []).append((tokens, definition))
        return found

    def definition(self, kernel: Kernel) -> tuple[Tokens, Definition] | None:
        """Where a kernel, or the template that it is an instance of, is written."""
        name = kernel.expression.split("<", 1)[0].split("::")[-1].strip()
        names = [parameter.name for parameter in kernel.parameters]
        for tokens, definition in self._by_name.get(name, []):
            if [parameter.name for parameter in definition.parameters] == names:
                return tokens, definition
        return None

    def place_of_parameter(self, kernel: Kernel, index: int) -> Place:
        """Where parameter *index* of a kernel is declared."""
        found = self.definition(kernel)
        if found is None:
            return Place(kernel.file, kernel.line, 1)
        return parameter_place(self.prepared, *found, index)

    def place_at(self, file: str, line: int, word: str) -> Place:
        """The first *word* of a line."""
        return token_place(self.prepared, file, line, word)


def parameter_place(prepared: Preprocessed, tokens: Tokens, definition: Definition, index: int) -> Place:
    """Where parameter *index* of a kernel is declared."""
    parts = [p for p in tokens.split(*definition.types) if tokens.words(*p) != ["void"]]
    start, stop = parts[index]
    name = definition.parameters[index].name
    at = next((i for i in range(stop - 1, start - 1, -1) if tokens.text[i] == name), start)
    return token_place(prepared, *tokens.where(at), name)


def token_place(prepared: Preprocessed, file: str, line: int, word: str, which: int = 0) -> Place:
    """The place of a word of a line; its start where a macro hides the word."""
    text = prepared.sources.line(file, line) or ""
    found = [m.start() + 1 for m in re.finditer(r"[A-Za-z_]\w*|\S", text) if m[0] == word]
    return Place(file, line, found[min(which, len(found) - 1)] if found else len(text) - len(text.lstrip()) + 1)
