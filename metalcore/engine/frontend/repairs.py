"""What an error of clang's asks to be changed: unions of vectors, functions named as ours are, plain members."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalcore.engine.frontend.methods import SELF
from metalcore.engine.frontend.structure import CLASS_KEYS, Structure
from metalcore.engine.frontend.tokens import Tokens

# A vector's copy is written out (docs/design/headers.md), so C++ has none for a union that holds one.
_NOT_COPIED = re.compile(
    r"^[^\n]*?:(\d{1,9}):(\d{1,9}):[^\n]* note: copy (?:constructor|assignment operator) of '[^\n]*' "
    r"is implicitly deleted because variant field '[^\n]*' has a non-trivial",
    re.MULTILINE,
)
# In Metal most functions of the library are templates, and a user's plain function beats a template.
_AMBIGUOUS = re.compile(r" error: (?:call to|redefinition of) '(\w+)'(?: is ambiguous)?$", re.MULTILINE)
# Members that a method names plainly whose object is a parameter (methods.py).
_MEMBER = re.compile(
    r"^<stdin>:(\d+):(\d+):[^\n]* error: (?:invalid use of member '[^\n]*' in explicit object member function"
    r"|call to (?:explicit|non-static) member function without an object argument)$",
    re.MULTILINE,
)
MEMBER = re.compile(
    r" error: (?:invalid use of member '|call to [\w-]+ member function without an object argument$)", re.MULTILINE
)
PATTERNS = (re.compile(_NOT_COPIED.pattern.lstrip("^"), re.MULTILINE), _AMBIGUOUS)
# Of two functions that fit alike, clang takes the one with such an attribute.
_PREFERRED = '__attribute__((enable_if(true, ""))) '
_NAME = re.compile(r"[A-Za-z_]\w*")


def insertions(text: str, messages: str) -> dict[tuple[int, int], str]:
    """What to insert where: line and column (in bytes, from 1) of *text*, which has no line markers."""
    fields = {(int(line), int(column)) for line, column in _NOT_COPIED.findall(messages)}
    names = set(_AMBIGUOUS.findall(messages))
    if not fields and not names:
        return {}
    tokens = Tokens(text)
    where = places(tokens)
    at = {place: i for i, place in enumerate(where)}
    found: dict[int, str] = {}
    for field in sorted(fields):
        if field in at:
            found.update(_copied_class(tokens, at[field]))
    for function in Structure(tokens).functions if names else ():
        if function.name in names and function.owner is None and not function.instantiation:
            found[_behind_attributes(tokens, function.head)] = _PREFERRED
    return {where[i]: piece for i, piece in found.items()}


def members(text: str, messages: str) -> dict[tuple[int, int], str]:
    """Where to put the object before a member, in methods that have it as a parameter."""
    fields = {(int(line), int(column)) for line, column in _MEMBER.findall(messages)}
    if not fields or SELF not in text:
        return {}
    tokens = Tokens(text)
    at = {place: i for i, place in enumerate(places(tokens)) if place in fields}
    methods = [f for f in Structure(tokens).functions if f.body >= 0 and SELF in tokens.text[f.open : f.close]]
    return {place: f"{SELF}." for place, i in at.items() if any(f.body < i < f.end for f in methods)}


def places(tokens: Tokens) -> list[tuple[int, int]]:
    """Line and column of each token."""
    found: list[tuple[int, int]] = []
    line, column = 1, 1
    for space, token in zip(tokens.space, tokens.text, strict=True):
        for piece, is_token in ((space, False), (token, True)):
            if is_token:
                found.append((line, column))
            line += piece.count("\n")
            behind = piece.rpartition("\n")[2]
            column = (1 if "\n" in piece else column) + len(behind.encode())
    return found


def _behind_attributes(tokens: Tokens, i: int) -> int:
    while tokens.at(i) == "[" and tokens.match[i] >= 0:
        i = tokens.forward(tokens.match[i])
    return i


def _openers(tokens: Tokens, i: int) -> Iterator[int]:
    """The braces around token *i*, innermost first."""
    while i >= 0:
        if tokens.text[i] in (")", "]", "}"):
            i = tokens.match[i]
        elif tokens.text[i] == "{":
            yield i
        i -= 1


def _copied_class(tokens: Tokens, field: int) -> dict[int, str]:
    """Copies, byte by byte, for the class around *field*: the union, or what a union without a name is part of."""
    for open_ in _openers(tokens, field):
        name, is_union = _class_name(tokens, open_)
        close = tokens.match[open_]
        found: dict[int, str] = {}
        if name is None:
            continue
        if not name and tokens.at(tokens.forward(close)) != ";":  # `typedef union { ... } U;`
            name = f"__mc_class_{open_}"
            found[open_] = f" {name} "
        if name:
            body = f"__builtin_memcpy(this, &__mc_o, sizeof({name}))"
            made = f" {name}(const {name}& __mc_o) {{ {body}; }}"
            made += f" {name}& operator=(const {name}& __mc_o) {{ {body}; return *this; }} "
            if not _has_constructor(tokens, open_, name):
                made = f" {name}() = default;{made}"
                first = _first_member(tokens, open_) if is_union else ""
                if first:  # a union is initialised as its first member is
                    made += f"constexpr {name}(const decltype({first})& __mc_v) : {first}(__mc_v) {{}} "
            return {**found, close: made}
    return {}


def _class_name(tokens: Tokens, open_: int) -> tuple[str | None, bool]:
    """Name of the class whose body opens at *open_*, None where that is no class, and whether it is a union."""
    i = tokens.back(open_)
    words: list[str] = []
    while i >= 0 and tokens.text[i] not in (";", "{", "}", ">", ")"):
        words.insert(0, tokens.text[i])
        i = tokens.back(i)
    for k, word in enumerate(words):
        if word in CLASS_KEYS:
            names = [w for w in words[k + 1 :] if w not in ("final", "alignas")]
            return (names[0] if names and _NAME.fullmatch(names[0]) else ""), word == "union"
    return None, False


def _has_constructor(tokens: Tokens, open_: int, name: str) -> bool:
    i = tokens.forward(open_)
    while i < tokens.match[open_]:
        if tokens.text[i] == name and tokens.at(tokens.forward(i)) == "(" and tokens.at(tokens.back(i)) != "~":
            return True
        i = tokens.forward(max(tokens.match[i], i) if tokens.text[i] in ("{", "(", "[") else i)
    return False


def _first_member(tokens: Tokens, open_: int) -> str:
    """Name of the first member, where it is a plain `float4 v;`."""
    words: list[str] = []
    i = tokens.forward(open_)
    while tokens.at(i) not in (";", ",", "=", ""):
        if tokens.text[i] in ("[", "(", "{"):
            return ""
        words.append(tokens.text[i])
        close = tokens.close_angle(i) if tokens.text[i] == "<" else -1
        i = tokens.forward(max(close, i))
    return words[-1] if len(words) > 1 and _NAME.fullmatch(words[-1]) else ""
