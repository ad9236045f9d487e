"""threadgroup-initialiser: a value that is set once before the threads start, and never again."""

from __future__ import annotations

from metalcore.engine.frontend import shared
from metalcore.engine.frontend.tokens import Tokens
from metalcore.lint.context import Findings, token_place
from metalcore.lint.front import Preprocessed

_LOOPS = frozenset(("for", "while", "do"))
_BEHIND_NAME = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", "[", "."))


def check(prepared: Preprocessed, findings: Findings) -> None:
    """Threadgroup variables with an initialiser that stand in a loop, or that a loop changes."""
    for tokens, definition in prepared.definitions:
        if definition.body < 0:
            continue
        loops = _loops(tokens, definition.body, definition.end)
        for i in range(definition.body, definition.end):
            if tokens.text[i] != "threadgroup" or not shared.declares_variable(tokens, i):
                continue
            for start in shared.initialisers(tokens, i):
                name = tokens.text[_name(tokens, start)]
                if any(first < start < last for first, last in loops):
                    text = f"'{name}' is set before the threads start, not in each round of this loop"
                elif any(_changes(tokens, name, max(first, start), last) for first, last in loops):
                    text = f"'{name}' is set before the threads start, and not again in later rounds of a loop below"
                else:
                    continue
                place = token_place(prepared, *tokens.where(start), name)
                findings.add("threadgroup-initialiser", place, text, definition.name)


def _name(tokens: Tokens, start: int) -> int:
    """The declarator's name before an initialiser: behind it there may be attributes and sizes of an array."""
    i = tokens.back(start)
    while tokens.at(i) in ("]", ")"):
        i = tokens.back(tokens.match[i])
        if tokens.at(i) in ("__attribute__", "alignas"):
            i = tokens.back(i)
    return i


def _loops(tokens: Tokens, start: int, stop: int) -> list[tuple[int, int]]:
    """Every loop, from its word to its last token."""
    found = []
    for i in range(start, stop):
        if tokens.text[i] not in _LOOPS:
            continue
        body = tokens.forward(i)
        if tokens.at(body) == "(":
            body = tokens.forward(tokens.match[body])
        last = tokens.match[body] if tokens.at(body) == "{" else body
        while tokens.at(body) != "{" and last < stop and tokens.text[last] != ";":
            last += 1
        found.append((i, last))
    return found


def _changes(tokens: Tokens, name: str, first: int, last: int) -> bool:
    """Whether a stretch of tokens seems to write the variable: an assignment, or its address is taken."""
    for i in range(first + 1, last):
        if tokens.text[i] != name or tokens.at(tokens.back(i)) in (".", "->"):
            continue
        if tokens.at(tokens.back(i)) in ("&", "++", "--"):
            return True
        after = tokens.forward(i)
        while tokens.at(after) in ("[", "."):
            after = tokens.forward(tokens.match[after] if tokens.text[after] == "[" else tokens.forward(after))
        if tokens.at(after) in _BEHIND_NAME - {"[", "."}:
            return True
    return False
