"""Finds the declarations of a token stream: namespaces, classes, functions and variables, bodies left unread."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metalcore.engine.frontend.tokens import Tokens
from metalcore.errors import CompileError

_WORD = re.compile(r"[^\x00-#%-@\[-^`{-\x7f]")  # a letter, _, $ or what is not ASCII, as tokens.py has them
# Words that own the parenthesis behind them; it is no parameter list.
_OWNERS = frozenset(
    ("decltype", "alignas", "__attribute__", "__declspec", "noexcept", "explicit", "coherent", "typeof", "sizeof")
)
_NOT_NAMES = _OWNERS | {"final", "const", "volatile"}
_BEFORE_GLOBAL = frozenset(("void", "const", "kernel", "constexpr", "inline", "static"))
_ACCESS = frozenset(("public", "private", "protected"))
CLASS_KEYS = frozenset(("struct", "class", "union", "enum"))


@dataclass
class Declaration:
    """One declaration; indices are into the token stream, -1 where a part is absent."""

    start: int
    scope: tuple[str, ...]
    end: int = -1  # the last token
    kind: str = "other"  # "function", "class", "variable" or "other"
    name: str = ""
    name_start: int = -1
    template: int = -1  # the word `template` of a header with parameters
    head: int = -1  # first token behind template headers
    instantiation: bool = False  # `template void f<float>(...)`
    open: int = -1  # parameter list
    close: int = -1
    body: int = -1  # opening brace of a function or class
    assign: int = -1  # the `=` of an initialiser
    owner: Declaration | None = None  # the class around it
    members: list[Declaration] = field(default_factory=list)


class Structure:
    """All declarations of a file, flat, in order; methods and nested classes are also members of their class."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.all: list[Declaration] = []
        try:
            self._walk(0, len(tokens), (), None)
        except RecursionError:
            raise CompileError("classes or namespaces are nested too deeply in this source") from None

    @property
    def functions(self) -> list[Declaration]:
        """Every function, method, prototype and explicit instantiation."""
        return [d for d in self.all if d.kind == "function"]

    def _walk(self, i: int, stop: int, scope: tuple[str, ...], owner: Declaration | None) -> None:
        tokens = self.tokens
        if i < stop and (not tokens.text[i] or tokens.text[i][0] == "#"):
            i = tokens.forward(i)
        while i < stop:
            word = tokens.text[i]
            if word in (";", "}"):
                i = tokens.forward(i)
            elif word in _ACCESS and tokens.at(tokens.forward(i)) == ":":
                i = tokens.forward(tokens.forward(i))
            elif word == "namespace" or (word == "inline" and tokens.at(tokens.forward(i)) == "namespace"):
                i = self._namespace(i, scope)
            elif word == "extern" and tokens.at(tokens.forward(i)).startswith('"'):
                j = tokens.forward(tokens.forward(i))
                if tokens.at(j) == "{":
                    self._walk(j + 1, self._partner(j), scope, owner)
                    j = tokens.forward(self._partner(j))
                i = j
            else:
                found = self.declaration(i, stop, scope, owner)
                i = tokens.forward(max(found.end, i))

    def _partner(self, i: int) -> int:
        """The bracket that closes *i*; the end of the file where it is missing."""
        partner = self.tokens.match[i]
        return partner if partner >= 0 else len(self.tokens) - 1

    def _namespace(self, i: int, scope: tuple[str, ...]) -> int:
        tokens = self.tokens
        j = i
        names: list[str] = []
        while j < len(tokens) and tokens.text[j] not in ("{", ";"):
            if tokens.text[j] == "[":
                j = self._partner(j)
            elif _WORD.match(tokens.text[j]) and tokens.text[j] not in ("namespace", "inline"):
                names.append(tokens.text[j])
            j = tokens.forward(j)
        if tokens.at(j) != "{":
            return tokens.forward(j)
        self._walk(j + 1, self._partner(j), scope + tuple(names), None)
        return tokens.forward(self._partner(j))

    def declaration(self, i: int, stop: int, scope: tuple[str, ...], owner: Declaration | None) -> Declaration:
        """Read the declaration that starts at *i* and record it."""
        tokens = self.tokens
        found = Declaration(start=i, scope=scope, owner=owner)
        while tokens.at(i) == "template":
            after = tokens.forward(i)
            if tokens.at(after) != "<":
                found.instantiation = True
                i = after
                break
            if found.template < 0:
                found.template = i
            close = tokens.close_angle(after)
            if close < 0:
                break
            i = tokens.forward(close)
        found.head = i
        self.all.append(found)
        if owner is not None:
            owner.members.append(found)
        if tokens.at(i) == "static_assert":
            while i < stop and tokens.text[i] != ";":
                i = self._partner(i) if tokens.text[i] == "(" else tokens.forward(i)
            found.end = min(i, len(tokens) - 1)
        else:
            self._head(found, i, stop)
        return found

    def _head(self, found: Declaration, i: int, stop: int) -> None:
        """Walk from the first specifier to the end of the declaration."""
        tokens, text = self.tokens, self.tokens.text
        class_key = ""
        initialisers = bases = False  # behind the ':' of a constructor, of a class head
        previous = ""
        while i < stop:
            word = text[i]
            if not word or word[0] == "#":
                i += 1
                continue
            if word == ";":
                break
            if word == "}":
                i = tokens.back(i)
                break
            if word in CLASS_KEYS and found.open < 0 and not class_key:
                class_key = word
            elif word == "operator" and found.open < 0:
                i = self._operator(found, i)
                continue
            elif word == "<" and found.assign < 0 and (_WORD.match(previous) or previous == "::"):
                close = tokens.close_angle(i, stop)
                i = close if close >= 0 else i
            elif word == "(":
                if found.open < 0 and found.assign < 0 and self._is_list(i, previous, found):
                    found.open, found.close, found.kind = i, self._partner(i), "function"
                i = self._partner(i)
            elif word == "[":
                i = self._partner(i)
            elif word == "::" and found.open < 0 and (previous in _BEFORE_GLOBAL or not _WORD.match(previous)):
                if previous != ">":
                    found.name_start = i  # `void ::ns::f`, `decltype(f) ::ns::f`
            elif word == "=" and found.assign < 0:
                found.assign = i
            elif word == ":":
                initialisers = found.open >= 0
                bases = bool(class_key)
            elif word == "{":
                if found.open >= 0 and found.assign < 0:
                    if not (initialisers and (_WORD.match(previous) or previous == ">")):
                        found.body, found.end = i, self._partner(i)
                        return
                elif class_key and found.kind != "class" and found.assign < 0:
                    self._class(found, i, class_key)
                i = self._partner(i)
            elif found.open < 0 and found.assign < 0 and not bases and word not in _NOT_NAMES and _WORD.match(word):
                if previous != "::":
                    found.name_start = i
                found.name = word
            previous = text[i]
            i += 1
        found.end = min(i, len(tokens) - 1)
        if found.kind == "other" and text[found.head] not in ("using", "typedef", "static_assert", "friend"):
            found.kind = "variable"

    def _class(self, found: Declaration, i: int, class_key: str) -> None:
        found.kind, found.body = "class", i
        if class_key != "enum":
            self._walk(i + 1, self._partner(i), found.scope + (found.name,), found)

    def _is_list(self, i: int, previous: str, found: Declaration) -> bool:
        """Whether the parenthesis at *i* opens a parameter list."""
        if previous in _OWNERS or not (_WORD.match(previous) or previous == ">"):
            return False
        # `float (*f)(int)` and `float (&rows)[4]` are declarators; `f (*x)` as a call cannot stand here.
        return self.tokens.at(self.tokens.forward(i)) not in ("*", "&", "&&")

    def _operator(self, found: Declaration, i: int) -> int:
        """Read `operator+`, `operator()`, `operator float`; answers the index of the parameter list's '('."""
        tokens = self.tokens
        if tokens.at(tokens.back(i)) != "::":
            found.name_start = i
        j = tokens.forward(i)
        if tokens.at(j) == "(" and tokens.at(tokens.forward(j)) == ")":
            j = tokens.forward(tokens.forward(j))
        while j < len(tokens) and tokens.text[j] not in ("(", ";", "{"):
            j = tokens.forward(j)
        found.name = "".join(tokens.words(i, j))
        if tokens.at(j) == "(":
            found.open, found.close, found.kind = j, self._partner(j), "function"
            return self._partner(j) + 1
        return j
