"""Thread inputs at file scope: `uint gid [[thread_position_in_grid]];` is read wherever it is named.

The declaration is marked deprecated, and clang warns of each use of it: it knows what hides the name. Each use then
becomes a call that reads the attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from metalcore.engine.frontend.attributes import SAME_AS, THREAD_ATTRIBUTES, Attributes
from metalcore.engine.frontend.reject import unsupported
from metalcore.engine.frontend.structure import Structure
from metalcore.engine.frontend.tokens import Tokens

_MARK = '__attribute__((deprecated("mc:input"))) extern '
_USE = re.compile(r"^<stdin>:(\d+):(\d+):[^\n]* warning: '(?:\w+::)*(\w+)' is deprecated: mc:input\b", re.MULTILINE)
_CALL = "__mc_input_"
_DROPPED = frozenset(("const", "constant", "thread", "static", "constexpr", "inline", "extern", "volatile"))


def file_scope(tokens: Tokens, structure: Structure, attributes: Attributes) -> None:
    """Give each thread input at file scope a function that reads it."""
    for declaration in structure.all:
        if declaration.kind != "variable" or declaration.owner is not None:
            continue
        names = [SAME_AS.get(a.name, a.name) for a in attributes.within(declaration.start, declaration.end)]
        found = next((name for name in names if name in THREAD_ATTRIBUTES), "")
        if not found:
            continue
        words = tokens.words(declaration.head, declaration.end)
        if declaration.template >= 0 or declaration.assign >= 0 or "," in words or "*" in words or "&" in words:
            what = f"declarations of thread inputs ('{declaration.name}') at file scope beyond a type and a name"
            raise unsupported(what, *tokens.where(declaration.name_start))
        type_ = " ".join(w for w in words[:-1] if w not in _DROPPED)
        tokens.blank(declaration.start, declaration.end + 1)
        read = f"return ::__mc::builtin<{type_}, ::__mc_{found}>();"
        tokens.text[declaration.end] = (
            f"inline __attribute__((always_inline, nodebug)) {type_} {_CALL}{declaration.name}() {{ {read} }} "
            f"{_MARK}const {type_} {declaration.name};"
        )


def has_inputs(text: str) -> bool:
    """Whether a text has thread inputs at file scope whose uses are not calls yet."""
    return _MARK in text


def read_inputs(text: str, bare: str, compile_again: Callable[[str], str]) -> str:
    """The text with a call for every use; *bare* is the same without line markers."""
    lines = [line.encode() for line in text.split("\n")]  # clang counts columns in bytes
    uses = {(int(line), int(column), name) for line, column, name in _USE.findall(compile_again(bare))}
    for line, column, name in sorted(uses, reverse=True):
        old, first = lines[line - 1], column - 1
        if old[first:].startswith(name.encode()):
            behind = first + len(name)
            lines[line - 1] = old[:first] + f"{_CALL}{name}()".encode() + old[behind:]
    return b"\n".join(lines).decode().replace(_MARK, "extern ")
