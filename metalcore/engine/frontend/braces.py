"""`uint4 k = {7};` sets the first element and leaves the rest zero, as every brace list does; `uint4(7)` sets all.

C++ calls the same constructor for both. It is marked deprecated, and clang's warnings say where it is called: at a
brace, or at a name before one.
"""

from __future__ import annotations

import re

from metalcore.engine.frontend.repairs import places
from metalcore.engine.frontend.tokens import Tokens

TAG = "::metal::__mc_fewer, "
_USE = re.compile(r"^<stdin>:(\d+):(\d+):[^\n]* warning: '[^\n]*' is deprecated: mc:splat\b", re.MULTILINE)
# A list of one value that is not zero: nothing else makes a run of clang worth while.
_ONE = re.compile(
    r"(?:[\w>=,({]|\breturn)\s*\{\s*(?!(?:0[uUlL]*|0?\.0*[fFh]?|0\.0*[fFh]?|false)\s*\})"
    r"(?:[^{};,()\"]|\((?:[^{};()]|\((?:[^{};()]|\([^{};()]*\))*\))*\))+\}"
)
_ENUM = re.compile(r"\benum\b[^{};()]*\{[^{}]*\}")
_NAME = re.compile(r"[A-Za-z_]\w*")


def has_lists_of_one(text: str) -> bool:
    """Whether there is anything that could be a vector from a list of one value."""
    return _ONE.search(_ENUM.sub("", text) if "enum" in text else text) is not None


def insertions(bare: str, messages: str) -> list[tuple[tuple[int, int], str]]:
    """Where a tag goes so that a list of one value sets one element; *bare* has no line markers."""
    uses = {(int(line), int(column)) for line, column in _USE.findall(messages)}
    if not uses:
        return []
    tokens = Tokens(bare)
    found = places(tokens)
    braces = {_brace(tokens, i) for i, place in enumerate(found) if place in uses} - {-1}
    return [(found[brace + 1], TAG) for brace in sorted(braces)]


def _brace(tokens: Tokens, i: int) -> int:
    """The brace of the list of one value at token *i*, or behind the type or variable there; -1 where there is none."""
    if tokens.at(i) == "=":  # of a member
        i = tokens.forward(i)
        if tokens.at(i) != "{":
            return -1
    while _NAME.fullmatch(tokens.at(i)) or tokens.at(i) == "::":
        i = tokens.forward(i)
        if tokens.at(i) == "<":
            close = tokens.close_angle(i)
            i = tokens.forward(close) if close >= 0 else i
    if tokens.at(i) != "{" or tokens.match[i] < 0:
        return -1
    return i if len(tokens.split(i + 1, tokens.match[i])) == 1 else -1
