"""Variables of functions in the threadgroup and constant address spaces: static to C++, with their initialisers."""

from __future__ import annotations

from bisect import bisect_right

from metalcore.engine.frontend import reject
from metalcore.engine.frontend.diagnostics import Sources
from metalcore.engine.frontend.structure import CLASS_KEYS, Structure
from metalcore.engine.frontend.tokens import Tokens
from metalcore.engine.model import INITIAL

_SPECIFIERS = frozenset(("const", "static", "constexpr", "volatile", "inline", "extern"))
_ATTRIBUTES = frozenset(("__attribute__", "alignas"))
_STATEMENT_ENDS = frozenset((";", "{", "}", ":", ")", "else", "do", ""))
Range = tuple[int, int]


def local_variables(tokens: Tokens, structure: Structure, kernel_bodies: list[Range], sources: Sources) -> None:
    """Threadgroup variables and constant tables inside functions become static: they belong to no single thread."""
    bodies = _outermost([(f.body, f.end) for f in structure.functions if f.body >= 0])
    kernel_bodies = _outermost(kernel_bodies)
    for i, word in enumerate(tokens.text):
        if word not in ("threadgroup", "constant"):
            continue
        first = _statement_start(tokens, i)
        inside = _inside(bodies, i)
        if first < 0 or not _is_variable(tokens, i, inside):
            continue
        if word == "threadgroup":
            if not _inside(kernel_bodies, i):
                raise reject.threadgroup_variable_outside(tokens, i, sources)
            for start in initialisers(tokens, i):  # each has a section of its own
                tokens.insert(start, f' __attribute__((section("{INITIAL}.{start}"))) ')
            tokens.insert(first, "static __attribute__((used)) ")
        elif inside and "static" not in tokens.words(first, i + 2):
            tokens.insert(first, "static ")


def initialisers(tokens: Tokens, i: int) -> list[int]:
    """Where the initialiser of each declarator of the statement at *i* starts: at `=`, `{` or `(`.

    *i* is the address space of a declaration; declarators without an initialiser have none.
    """
    found: list[int] = []
    i, is_marked, words = tokens.forward(i), False, 0
    while tokens.at(i) not in (";", ""):
        word = tokens.text[i]
        if word in _ATTRIBUTES:
            i = _behind_attribute(tokens, i)
            continue
        if word in CLASS_KEYS:
            i = _behind_class(tokens, i)
            words += 1
            continue
        if word == "," or (word in ("=", "{", "(") and not is_marked and words > 1):
            is_marked = word != ","
            if is_marked:
                found.append(i)
        if word in ("(", "[", "{"):
            i = max(tokens.match[i], i)
        elif word == "<":
            i = max(tokens.close_angle(i), i)
        words += 1
        i = tokens.forward(i)
    return found


def declares_variable(tokens: Tokens, i: int) -> bool:
    """Whether the address space at *i*, inside a function, starts the declaration of a variable that lies there."""
    return _statement_start(tokens, i) >= 0 and _is_variable(tokens, i, inside=True)


def _outermost(ranges: list[Range]) -> list[Range]:
    """The ranges that lie in no other, in order."""
    kept: list[Range] = []
    for start, end in sorted(ranges):
        if not kept or start > kept[-1][1]:
            kept.append((start, end))
    return kept


def _inside(ranges: list[Range], i: int) -> bool:
    at = bisect_right(ranges, (i, 1 << 62)) - 1
    return at >= 0 and ranges[at][0] < i < ranges[at][1]


def _statement_start(tokens: Tokens, i: int) -> int:
    """First specifier of the declaration statement around token *i*; -1 where it is no statement."""
    first = i
    while True:
        before = tokens.back(first)
        word = tokens.at(before)
        if word in _SPECIFIERS:
            first = before
        elif word == ")" and tokens.at(tokens.back(tokens.match[before])) == "alignas":
            return first  # `static` goes behind it
        elif word == ")" and tokens.at(tokens.back(tokens.match[before])) == "__attribute__":
            first = tokens.back(tokens.match[before])
        elif word in _STATEMENT_ENDS:
            return first
        else:
            return -1


def _is_variable(tokens: Tokens, i: int, inside: bool) -> bool:
    """Whether the declaration whose address space stands at *i* declares an object there, not a pointer to one.

    *inside*: of a function, where `s(0)` and `s{0}` are variables with their initialisers.
    """
    i = tokens.forward(i)
    words = 0
    while i < len(tokens):
        word = tokens.text[i]
        if word in _ATTRIBUTES:
            i = _behind_attribute(tokens, i)
            continue
        if word in CLASS_KEYS:
            i = _behind_class(tokens, i)
            words += 1
            continue
        if word in ("*", "&", "&&", "}", ")"):
            return False
        if word in ("(", "{"):
            return inside and words > 1 and tokens.at(tokens.forward(i)) not in ("*", "&", "&&")
        if word in ("[", ";", "=", ","):
            return words > 0
        if word == "<":
            close = tokens.close_angle(i)
            if close < 0:
                return False
            i = close
        else:
            words += 1
        i = tokens.forward(i)
    return False


def _behind_attribute(tokens: Tokens, i: int) -> int:
    """Index of the token behind `__attribute__((...))` or `alignas(...)` at *i*."""
    open_ = tokens.forward(i)
    return tokens.forward(tokens.match[open_] if tokens.at(open_) == "(" and tokens.match[open_] >= 0 else i)


def _behind_class(tokens: Tokens, i: int) -> int:
    """Index of the token behind `struct`, `struct Name` or `struct Name { ... }` at *i*."""
    i = tokens.forward(i)
    while tokens.at(i) not in ("{", ";", "", "=", "["):
        after = tokens.forward(i)
        if tokens.at(after) != "{":
            return after
        i = after
    return tokens.forward(max(tokens.match[i], i)) if tokens.at(i) == "{" else i
