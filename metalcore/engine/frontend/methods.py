"""Address spaces behind methods and constructors: stripped, and the overloads that then coincide dropped."""

from __future__ import annotations

import re

from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens

_SPACES = frozenset(("device", "threadgroup", "constant", "thread"))
_WORD = re.compile(r"[A-Za-z_]")
_TYPE_WORDS = frozenset(
    ("unsigned", "signed", "int", "long", "short", "char", "float", "half", "bool", "const", "volatile", "void", "auto")
)


def strip_spaces(tokens: Tokens, structure: Structure) -> None:
    """Remove the address space behind every method, then all but one of each set of methods that became the same."""
    spaces: dict[int, str] = {}
    explicit: set[int] = set()
    for function in structure.functions:
        if function.open >= 0:
            if _is_defaulted(tokens, function):
                _take_any_space(tokens, function, spaces)
            const = "const" in tokens.words(function.close, max(function.body, function.close))
            found = _strip(tokens, function)
            if found:
                spaces[function.start] = found
                if _answers_in(tokens, function, found):
                    _take_object(tokens, function, found, const)
                    explicit.add(function.start)
    assigned = [f.owner for f in structure.functions if f.start in explicit and f.name == "operator=" and f.owner]
    _keep_assignment(tokens, assigned, explicit)
    seen: dict[tuple[int, str], Declaration] = {}
    for function in sorted(structure.functions, key=lambda f: _preference(spaces.get(f.start, ""))):
        if function.open < 0 or not (function.owner is not None or function.start in spaces):
            continue
        if function.start in explicit:
            continue
        owner = function.owner.start if function.owner is not None else -1
        key = (owner, _signature(tokens, function))
        first = seen.setdefault(key, function)
        if first is function:
            continue
        if first.start in spaces or function.start in spaces:
            if first.body < 0 <= function.body and first.owner is None:
                continue  # a declaration and its definition outside the class
            _drop(tokens, function)


def _is_defaulted(tokens: Tokens, function: Declaration) -> bool:
    return (
        function.owner is not None and function.assign >= 0 and tokens.at(tokens.forward(function.assign)) == "default"
    )


def _take_any_space(tokens: Tokens, function: Declaration, spaces: dict[int, str]) -> None:
    """`R(device const R&) = default` copies member by member, which the plain one does from every space."""
    for i in range(function.head, function.assign):
        if tokens.text[i] in _SPACES:
            spaces[function.start] = tokens.text[i]
            tokens.blank(i, i + 1)


def _keep_assignment(tokens: Tokens, owners: list[Declaration], explicit: set[int]) -> None:
    """An `operator=` for objects in one space leaves those in the others with the one that C++ makes."""
    for owner in {owner.start: owner for owner in owners}.values():
        if all(m.start in explicit for m in owner.members if m.name == "operator="):
            tokens.insert(owner.body + 1, f" {owner.name}& operator=(const {owner.name}&) = default; ")


def _answers_in(tokens: Tokens, function: Declaration, space: str) -> bool:
    """Whether a method answers a pointer or reference into its own space, as `device T& at(int i) device` does."""
    if function.owner is None or function.body < 0 or space == "thread":
        return False
    return space in tokens.words(function.head, function.name_start)


def _take_object(tokens: Tokens, function: Declaration, space: str, const: bool) -> None:
    """Give a method its object as a parameter (C++23), so that what it answers keeps the object's address space."""
    owner = function.owner
    assert owner is not None
    parameters = tokens.words(function.open + 1, function.close)
    first = tokens.forward(function.open)
    object_ = f"this {'const ' if const else ''}__mc_{space} {owner.name}& __mc_self"
    tokens.insert(first, object_ + (", " if parameters else ""))
    for i in range(function.close, function.body):
        if tokens.text[i] == "const":
            tokens.blank(i, i + 1)
    members = {m.name for m in owner.members} - set(parameters) - {owner.name}
    for i in range(function.body + 1, function.end):
        word = tokens.text[i]
        before, after = tokens.back(i), tokens.forward(i)
        if word == "this" and tokens.at(after) == "->":
            tokens.text[i], tokens.text[after] = "__mc_self", "."
        elif word == "this" and tokens.at(before) == "*":
            tokens.text[i] = "&__mc_self"
        elif word in members and tokens.at(before) not in (".", "->", "::"):
            tokens.insert(i, "__mc_self.")


def simplify_constructors(tokens: Tokens, structure: Structure) -> None:
    """Undo what newer C++ than Metal's makes of constructors.

    `struct A { A() = default; ... }` is an aggregate in Metal and none since C++20; `A<T>()` names no constructor.
    """
    for owner in structure.all:
        if owner.kind != "class":
            continue
        constructors = [m for m in owner.members if m.kind == "function" and m.name == owner.name and m.open >= 0]
        constructors = [m for m in constructors if tokens.text[m.open]]  # those that were not dropped
        for member in constructors:
            angle = tokens.forward(member.name_start)
            if tokens.at(angle) == "<":
                tokens.blank(angle, tokens.back(member.open) + 1)
        if all(m.assign >= 0 and "default" in tokens.words(m.assign, m.end) for m in constructors):
            for member in constructors:
                _drop(tokens, member)


def _preference(space: str) -> int:
    """The method without a space is kept before the `thread` one, and that before the others."""
    return {"": 0, "thread": 1}.get(space, 2)


def _strip(tokens: Tokens, function: Declaration) -> str:
    """Remove the address space behind the parameter list; answers its word."""
    i = tokens.forward(function.close)
    found = ""
    while i < function.end + 1 and tokens.text[i] not in ("{", ";", ":", "=", "->"):
        word = tokens.text[i]
        if word in _SPACES:
            found = word
            tokens.blank(i, i + 1)
        elif word == "(":
            i = max(tokens.match[i], i)
        i = tokens.forward(i)
    return found


def _signature(tokens: Tokens, function: Declaration) -> str:
    """What C++ tells overloads apart by: template header, name, parameter types and qualifiers."""
    parts = [_parameter_type(tokens, start, stop) for start, stop in tokens.split(function.open + 1, function.close)]
    stop = function.body if function.body >= 0 else function.end
    for i in range(function.close, stop):
        if tokens.text[i] in (":", "=", "->"):
            stop = i
            break
    qualifiers = [w for w in tokens.words(function.close + 1, stop) if w in ("const", "volatile", "&", "&&")]
    header = ""
    if function.template >= 0:
        header = tokens.source(function.template, function.head)
        header += tokens.source(function.head, function.name_start)
    name = tokens.source(function.name_start, function.open)
    return "|".join((header, name, ",".join(parts), " ".join(qualifiers)))


def _parameter_type(tokens: Tokens, start: int, stop: int) -> str:
    """The words of one parameter without its name and default value."""
    words = tokens.words(start, stop)
    if "=" in words:
        words = words[: words.index("=")]
    words = [w for w in words if w != "thread"]
    if len(words) > 1 and _WORD.match(words[-1]) and words[-1] not in _TYPE_WORDS and words[-2] != "::":
        others = [w for w in words[:-1] if w not in ("const", "volatile", *_SPACES)]
        if others:
            words = words[:-1]
    return " ".join(words)


def _drop(tokens: Tokens, function: Declaration) -> None:
    """Remove a whole declaration; its line breaks stay."""
    tokens.blank(function.start, function.end + 1)
    after = tokens.forward(function.end)
    if tokens.at(after) == ";" and function.body >= 0:
        tokens.blank(after, after + 1)
