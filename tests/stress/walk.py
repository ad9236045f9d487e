"""Ways through a syntax tree: its children, its nodes with their places, a copy with one node replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tests.stress import tree as t

EXPRESSIONS = t.Expr.__args__
STATEMENTS = t.Stmt.__args__
Step = tuple[str, int | None]
Path = tuple[Step, ...]


def children(node: Any) -> Iterator[tuple[Step, Any]]:
    """Expressions, statements, cases and functions right below a node, each with the way to it."""
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, (*EXPRESSIONS, *STATEMENTS)):
            yield (f.name, None), value
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, (*EXPRESSIONS, *STATEMENTS, t.Case, t.Function)):
                    yield (f.name, i), item


def nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All nodes below, outer ones first."""
    for step, child in children(node):
        yield (*path, step), child
        yield from nodes(child, (*path, step))


def get(node: Any, path: Path) -> Any:
    for name, index in path:
        node = getattr(node, name)
        node = node if index is None else node[index]
    return node


def put(node: Any, path: Path, new: Any) -> Any:
    """A copy in which the node at path is `new`; a tuple of statements takes the place of one statement."""
    if not path:
        return new
    (name, index), rest = path[0], path[1:]
    value = getattr(node, name)
    if index is None:
        return replace(node, **{name: put(value, rest, new)})
    if not rest and isinstance(new, tuple):
        return replace(node, **{name: (*value[:index], *new, *value[index + 1 :])})
    item = put(value[index], rest, new)
    return replace(node, **{name: (*value[:index], item, *value[index + 1 :])})


def delete(node: Any, paths: set[Path], here: Path = ()) -> Any:
    """A copy without the statements at these paths."""
    changes: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, tuple) and any(isinstance(i, (*STATEMENTS, t.Case, t.Function)) for i in value):
            kept = []
            for i, item in enumerate(value):
                path = (*here, (f.name, i))
                if path not in paths:
                    kept.append(delete(item, paths, path))
            changes[f.name] = tuple(kept)
    return replace(node, **changes) if changes else node


def mentions(node: Any) -> set[str]:
    """Names of variables and functions that a tree uses."""
    found = set()
    for _, child in nodes(node):
        if isinstance(child, t.Var):
            found.add(child.name)
        elif isinstance(child, t.Call):
            found.add(child.function)
    return found
