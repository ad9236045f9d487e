"""used-before-defined: clang's errors about names that the file defines further down."""

from __future__ import annotations

import re

from metalcore.diagnostics import Related
from metalcore.engine.frontend.diagnostics import Diagnostic as Message
from metalcore.engine.frontend.diagnostics import group, is_ours, parse
from metalcore.engine.frontend.structure import Declaration
from metalcore.lint.context import Findings, token_place
from metalcore.lint.front import ClangErrors, Preprocessed

_UNDECLARED = re.compile(
    r"use of undeclared identifier '(\w+)'|unknown type name '(\w+)'|no template named '(\w+)'"
    r"|call to function '(\w+)' that is neither visible in the template definition nor found"
)


def check(prepared: Preprocessed, errors: ClangErrors, findings: Findings) -> bool:
    """Report what is only a matter of order; answers whether that explains every error."""
    later: dict[str, list[Declaration]] = {}
    for declaration in prepared.structure.all:
        if declaration.kind in ("function", "class") and declaration.body >= 0 and declaration.owner is None:
            later.setdefault(declaration.name, []).append(declaration)
    explained = True
    names: set[str] = set()
    for entry in group(parse(errors.errors)):
        head = entry[0]
        if head.level == "warning":
            continue
        match = _UNDECLARED.search(head.text)
        name = next((g for g in match.groups() if g), "") if match else ""
        if not name and any(f"'{known}'" in head.text for known in names):
            continue  # a consequence of one that is reported already
        found = _below(prepared, head, later.get(name, []))
        if found is None or is_ours(head.file):
            explained = False
            continue
        names.add(name)
        file, line = prepared.tokens.where(found.name_start)
        there = token_place(prepared, file, line, name)
        related = (Related(there.file, there.line, there.column, f"'{name}' is defined here"),)
        place = token_place(prepared, head.file, head.line, name)
        findings.add("used-before-defined", place, f"'{name}' is used before it is defined", related=related)
    return explained and bool(names)


def _below(prepared: Preprocessed, head: Message, candidates: list[Declaration]) -> Declaration | None:
    """The definition that follows the use, in the order in which the compiler reads."""
    for declaration in candidates:
        file, line = prepared.tokens.where(declaration.name_start)
        if file != head.file or line > head.line:
            return declaration
    return None
