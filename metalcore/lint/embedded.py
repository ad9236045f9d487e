"""Metal source in Python programs: the literals that go to compile_shader, metal_kernel and Library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

# Which argument of a call is the source, by its place and by its name; one of a body has a header, too.
_CALLS = {"compile_shader": (0, "source"), "Library": (0, "source_or_path"), "metal_kernel": (3, "source")}
_BODY, _HEADER = "metal_kernel", (4, "header")
_MSL = ("kernel", ";")  # a literal without these is a path


@dataclass(frozen=True)
class Embedded:
    """One source. `line` is where its text begins, `last` where the literal ends."""

    text: str
    line: int
    last: int
    is_body: bool = False
    header: str = ""

    @property
    def padded(self) -> str:
        """The text on the lines that it has in the program."""
        return "\n" * (self.line - 1) + self.text


@dataclass(frozen=True)
class MadeAtRunTime:
    """A call whose source is no literal."""

    function: str
    line: int


def embedded(program: str) -> Iterator[Embedded | MadeAtRunTime]:
    """Every source of a program, in the order of its calls. SyntaxError: it is no Python."""
    tree = ast.parse(program)
    names = _literals(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _CALLS]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        function = _name(call.func)
        given = _argument(call, *_CALLS[function])
        if given is None:
            continue  # another function of the name
        literal = names.get(given.id) if isinstance(given, ast.Name) else given
        text = _text(literal)
        if literal is None or text is None:
            if function != "Library":  # of a file, mostly
                yield MadeAtRunTime(function, call.lineno)
        elif function == _BODY or any(word in text for word in _MSL):
            header = _argument(call, *_HEADER) if function == _BODY else None
            found = names.get(header.id) if isinstance(header, ast.Name) else header
            last = literal.end_lineno or literal.lineno
            is_plain = text.count("\n") == last - literal.lineno
            # Of a text with escapes, lines cannot be told apart: they are those of the literal as far as it goes.
            yield Embedded(
                text, literal.lineno, last if is_plain else literal.lineno, function == _BODY, _text(found) or ""
            )


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return by_name or (call.args[place] if place < len(call.args) else None)


def _text(literal: ast.expr | None) -> str | None:
    if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
        return literal.value
    return None


def _literals(tree: ast.Module) -> dict[str, ast.expr | None]:
    """Names that are set once, to a literal; None: to something else, or twice."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name):
                value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
                found[target.id] = value if target.id not in found else None
    return found
