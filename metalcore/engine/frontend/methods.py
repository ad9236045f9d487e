"""Address spaces behind methods and constructors: stripped, and the overloads that then coincide dropped."""

from __future__ import annotations

import re

from metalcore.engine.frontend.reject import unsupported
from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens

SELF = "__mc_self"  # the object of a method that takes it as a parameter
_SPACES = frozenset(("device", "threadgroup", "constant", "thread"))
_WORD = re.compile(r"[A-Za-z_]")
_TYPE_WORDS = frozenset(
    ("unsigned", "signed", "int", "long", "short", "char", "float", "half", "bool", "const", "volatile", "void", "auto")
)


def strip_spaces(tokens: Tokens, structure: Structure) -> None:
    """Remove the address space behind every method, then all but one of each set of methods that became the same.

    Where the methods of a set differ in more than their space, each method takes its object as a parameter instead.
    """
    spaces: dict[int, str] = {}
    qualifiers: dict[int, str] = {}
    for function in structure.functions:
        if function.open >= 0:
            if _is_defaulted(tokens, function):
                _take_any_space(tokens, function, spaces)
            words = tokens.words(function.close, _head_end(tokens, function))
            qualifiers[function.start] = "".join(f"{w} " for w in ("const", "volatile") if w in words)
            found = _strip(tokens, function)
            if found:
                spaces[function.start] = found
    explicit = _explicit(tokens, structure, spaces)
    for function in structure.functions:
        if function.start in explicit:
            _take_object(tokens, function, spaces[function.start], qualifiers[function.start])
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


def _explicit(tokens: Tokens, structure: Structure, spaces: dict[int, str]) -> set[int]:
    """Where the methods start that take their object as a parameter."""
    differs = _bodies_differ(tokens, structure, spaces)
    found: set[int] = set()
    for function in structure.functions:
        space = spaces.get(function.start, "thread")
        if space == "thread" or _is_constructor(function) or _is_defaulted(tokens, function):
            continue
        assigns = function.name == "operator=" and not _has_thread_double(tokens, function, spaces)
        if _answers_in(tokens, function, space) or ((differs or assigns) and _class_of(tokens, function)):
            found.add(function.start)
    return found


def _has_thread_double(tokens: Tokens, function: Declaration, spaces: dict[int, str]) -> bool:
    """Whether the class of a method has the same one for objects in no space."""
    own = function.owner.members if function.owner is not None else []
    return any(
        m.name == function.name
        and m.open >= 0
        and spaces.get(m.start, "thread") == "thread"
        and _loose(tokens, m) == _loose(tokens, function)
        for m in own
    )


def _bodies_differ(tokens: Tokens, structure: Structure, spaces: dict[int, str]) -> bool:
    """Whether methods of a class that differ in their address space do different things.

    Then one for all spaces would be wrong, in that class and wherever an object of it is called through `this`.
    """
    groups: dict[tuple[object, ...], list[Declaration]] = {}
    if set(spaces.values()) <= {"thread"}:
        return False
    for function in structure.functions:
        if function.open >= 0:
            groups.setdefault(_loose(tokens, function), []).append(function)
    found = False
    for group in groups.values():
        in_spaces = {spaces.get(f.start, "") or "thread" for f in group}
        if len(in_spaces) < 2:
            continue
        group = sorted(group, key=lambda f: _preference(spaces.get(f.start, "")))
        bodies = [_body(tokens, f) for f in group]
        if _is_constructor(group[0]):
            # One that is defaulted leaves its members without a value: the others give them any.
            other = next((f for f, b in zip(group, bodies, strict=True) if b not in (bodies[0], ["default"])), None)
            if other is not None:
                what = f"constructors of '{other.name}' that do different things in different address spaces"
                raise unsupported(what, *tokens.where(other.start))
        elif any(body != bodies[0] for body in bodies):
            found = True
    return found


def _body(tokens: Tokens, function: Declaration) -> list[str]:
    """The words of a function behind its qualifiers, its parameters by their numbers."""
    if function.body < 0:  # one that is defined elsewhere is like no other that is not
        return ["default" if _is_defaulted(tokens, function) else "declared"]
    parts = tokens.split(function.open + 1, function.close)
    names = {tokens.at(_parameter_name(tokens, *part)): f"parameter {n}" for n, part in enumerate(parts)}
    return [names.get(word, word) for word in tokens.words(_head_end(tokens, function), function.end)]


def _parameter_name(tokens: Tokens, start: int, stop: int) -> int:
    """Index of the last word before an array's bound or a default value."""
    for i in range(start, stop):
        if tokens.text[i] in ("=", "["):
            stop = i
            break
    return tokens.back(stop)


def _is_constructor(function: Declaration) -> bool:
    return function.owner is not None and function.name == function.owner.name


def _class_of(tokens: Tokens, function: Declaration) -> str:
    """Name of the class of a method, also of one defined outside; empty for a function."""
    if function.owner is not None:
        return function.owner.name
    words = tokens.words(function.name_start, function.open)
    if "::" not in words:
        return ""
    last = len(words) - 1 - words[::-1].index("::")
    depth = 0
    for word in reversed(words[:last]):
        depth += {">": 1, "<": -1}.get(word, 0)
        if depth == 0 and word != "<":
            return word
    return ""


def _loose(tokens: Tokens, function: Declaration) -> tuple[object, ...]:
    """What methods have in common that differ in their address space, and perhaps in `const`."""
    parts = [_parameter_type(tokens, start, stop) for start, stop in tokens.split(function.open + 1, function.close)]
    header = tokens.words(function.template, function.head) if function.template >= 0 else []
    scope = (*function.scope, *(w for w in tokens.words(function.name_start, function.open) if w != "::"))
    return (scope if function.owner is None else function.owner.start, function.name, *header, ",".join(parts))


def _head_end(tokens: Tokens, function: Declaration) -> int:
    """Index of what ends the qualifiers behind a parameter list."""
    i = tokens.forward(function.close)
    while i < function.end and tokens.text[i] not in ("{", ";", ":", "=", "->"):
        i = tokens.forward(tokens.match[i] if tokens.text[i] == "(" and tokens.match[i] > i else i)
    return i


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
        own = [m for m in owner.members if m.name == "operator=" and m.open >= 0]
        if all(m.start in explicit for m in own if owner.name in tokens.words(m.open, m.close)):
            tokens.insert(owner.body + 1, f" {owner.name}& operator=(const {owner.name}&) = default; ")


def _answers_in(tokens: Tokens, function: Declaration, space: str) -> bool:
    """Whether a method answers a pointer or reference into its own space, as `device T& at(int i) device` does."""
    if function.owner is None or function.body < 0 or space == "thread":
        return False
    return space in tokens.words(function.head, function.name_start)


def _take_object(tokens: Tokens, function: Declaration, space: str, qualifiers: str) -> None:
    """Give a method its object as a parameter (C++23): of its address space, which its body then knows.

    Members that the body names plainly are found by clang (repairs.py), which knows what hides them.
    """
    first = tokens.forward(function.open)
    object_ = f"this {qualifiers}__mc_{space} {_class_of(tokens, function)}& {SELF}"
    tokens.insert(first, object_ + (", " if tokens.words(function.open + 1, function.close) else ""))
    for i in range(function.close, _head_end(tokens, function)):
        if tokens.text[i] in ("const", "volatile"):
            tokens.blank(i, i + 1)
    for i in range(function.body + 1, function.end if function.body >= 0 else 0):
        if tokens.text[i] == "this":
            after = tokens.forward(i)
            is_arrow = tokens.at(after) == "->"
            tokens.text[i] = SELF if is_arrow else f"&{SELF}"
            if is_arrow:
                tokens.text[after] = "."


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
