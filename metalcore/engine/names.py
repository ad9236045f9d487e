"""Names of variables and functions as the source writes them, from those that the compiler gives them."""

from __future__ import annotations

import re

# What may stand between the names in a mangled one: vectors, arrays, numbers, what was named before, any letter.
_PART = re.compile(r"Dv\d+_|A\d+_|L[a-z]n?\d+E|[ST][0-9A-Z]*_|(\d+)|.")
_INITIAL = re.compile(r"__const\..*\.([A-Za-z_]\w*)(?:\.\d+)?$")
_START, _LENGTH, _LOCAL = (
    re.compile(pattern) for pattern in (r"^_Z(?:TL|L)?N?(?:K|L|12_GLOBAL__N_1)*", r"L?(\d+)", r"E(\d+)(\w+)$")
)
_STRING = re.compile(r"\.str(?:\.\d+)?$")


def plain_name(symbol: str) -> str:
    """A variable's name in the source, without namespaces and functions around it; "" of a string.

    Example: `plain_name("_ZN2nsL5tableE")` is `"table"`.
    """
    symbol = symbol.lstrip("@%").strip('"')
    if _STRING.match(symbol):
        return ""
    if found := _INITIAL.match(symbol):
        return found[1]
    if not symbol.startswith("_Z"):
        return symbol
    last, at = "", 2
    while part := _PART.match(symbol, at):
        at = part.end()
        if part[1] and at + int(part[1]) <= len(symbol):
            last = symbol[at : at + int(part[1])] or last
            at += int(part[1])
    return last or symbol


def first_name(symbol: str) -> str:
    """The same of a function or a variable, whatever types of parameters stand behind its name.

    Example: `first_name("_Z6systemPU3AS2Kc")` is `"system"`.
    """
    if not symbol.startswith("_Z"):
        return symbol
    local = _LOCAL.search(symbol) if symbol.startswith("_ZZ") else None
    if local:
        return local[2][: int(local[1])]
    found, rest = symbol, _START.sub("", symbol)
    while length := _LENGTH.match(rest):
        end = length.end() + int(length[1])
        found, rest = rest[length.end() : end], rest[end:]
    return found
