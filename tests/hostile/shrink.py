"""The smallest kernel and launch that still fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.hostile import tree as h
from tests.hostile.shape import Grid, Launch, Shape
from tests.stress import tree as t
from tests.stress.types import Scalar

Case = tuple[h.Kernel, Launch]
STATEMENTS = h.Stmt.__args__
EXPRESSIONS = h.Expr.__args__


def relaunched(launch: Launch, threads: Grid, group: Grid) -> Launch:
    shape = Shape(threads, group)
    owns = {n: values[: shape.total] for n, values in launch.owns.items()}
    return replace(launch, shape=shape, owns=owns)


def launches(case: Case) -> Iterator[Case]:
    kernel, launch = case
    (w, d, e), (gw, gh, gd) = launch.shape.threads, launch.shape.group
    if d * e > 1:
        yield kernel, relaunched(launch, (w, 1, 1), (gw, gh, gd))
    for n in (1, 32, 64, w // 2, w - w % 32, w - 1):
        if 0 < n < w:
            yield kernel, relaunched(launch, (n, d, e), (gw, gh, gd))
    for g in ((32, 1, 1), (64, 1, 1)):
        if (gw, gh, gd) == g:
            break
        yield kernel, relaunched(launch, (w, d, e), g)


def rewrites(node: Any, change: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """Copies of a tree in which one node is another."""
    yield from change(node)
    if isinstance(node, tuple):
        for i, item in enumerate(node):
            for new in rewrites(item, change):
                yield (*node[:i], *(new if isinstance(new, tuple) else (new,)), *node[i + 1 :])
    elif is_dataclass(node) and isinstance(node, (*STATEMENTS, *EXPRESSIONS, h.Access)):
        for f in fields(node):
            value = getattr(node, f.name)
            if isinstance(value, (*STATEMENTS, *EXPRESSIONS, h.Access)) or f.name in ("then", "other", "body"):
                for new in rewrites(value, change):
                    yield replace(node, **{f.name: new})


def fewer_statements(node: Any) -> Iterator[Any]:
    if isinstance(node, STATEMENTS):
        yield ()
        for name in ("then", "body"):
            if hasattr(node, name):
                yield getattr(node, name)


def simpler(node: Any) -> Iterator[Any]:
    """Operands instead of an operation, small numbers instead of anything else."""
    if not isinstance(node, EXPRESSIONS) or not isinstance(node.type, Scalar):
        return
    for name in ("a", "b"):
        child = getattr(node, name, None)
        if child is not None and not isinstance(node, t.Cast):
            yield child if child.type == node.type else t.Cast(node.type, child)
        elif child is not None and isinstance(child, t.Cast):
            yield t.Cast(node.type, child.a)
    if not isinstance(node, (t.Lit, h.Param, h.Own)):
        yield t.Lit(node.type, 0)
    if isinstance(node, h.Access) and node.form != "plain":
        yield replace(node, form="plain")


def mentions(body: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(body, tuple):
        for item in body:
            found |= mentions(item)
    elif isinstance(body, (*STATEMENTS, h.Access)):
        for f in fields(body):
            value = getattr(body, f.name)
            found |= {value} if isinstance(value, str) else mentions(value)
    return found


def chunks(case: Case) -> Iterator[Case]:
    """Only some of the statements: each alone, halves, all but one."""
    kernel, launch = case
    body = kernel.body
    if len(body) > 1:
        for i in range(len(body)):
            yield replace(kernel, body=(body[i],)), launch
    size = len(body) // 2
    while size > 1:
        for i in range(0, len(body), size):
            yield replace(kernel, body=(*body[:i], *body[i + size :])), launch
        size //= 2


def candidates(case: Case) -> Iterator[Case]:
    kernel, launch = case
    yield from chunks(case)
    used = mentions(kernel.body)
    for a in kernel.arrays:
        if a.name not in used and a.space != "listed":
            yield replace(kernel, arrays=tuple(x for x in kernel.arrays if x is not a)), launch
    for body in rewrites(kernel.body, fewer_statements):
        yield replace(kernel, body=body), launch
    yield from launches(case)
    for body in rewrites(kernel.body, simpler):
        yield replace(kernel, body=body), launch
    for i, a in enumerate(kernel.arrays):
        for change in ({"around": 0}, {"rows": 0}):
            if any(getattr(a, k) != v for k, v in change.items()):
                new = replace(a, **change)
                yield replace(kernel, arrays=(*kernel.arrays[:i], new, *kernel.arrays[i + 1 :])), launch


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    end = time.monotonic() + seconds
    case = case[0], replace(case[1], fixed=True)
    failed: set[str] = set()  # what was tried and is good: most of it comes again after a step
    found = True
    while found and time.monotonic() < end:
        found = False
        for candidate in candidates(case):
            if time.monotonic() > end:
                break
            key = repr((candidate[0].body, candidate[0].arrays, candidate[1].shape))
            if key in failed or not known(candidate[0]):
                continue
            if fails(candidate):
                case, found = candidate, True
                break
            failed.add(key)
    return case


def known(kernel: h.Kernel) -> bool:
    """No statement uses a variable that no statement sets."""
    names = {"me", "tid", "lane", "grp", "sg", "total", "gt", "px", "py", "pz", *(n for n, _ in kernel.constants)}

    def expression(e: Any) -> bool:
        if isinstance(e, t.Var):
            return e.name in names
        return all(expression(getattr(e, f.name)) for f in fields(e) if isinstance(getattr(e, f.name), EXPRESSIONS))

    def body(statements: h.Body) -> bool:
        for s in statements:
            if isinstance(s, h.For):
                names.add(s.name)
            access = getattr(s, "access", None)
            for holder in (s, access):
                for f in fields(holder) if holder is not None else ():
                    value = getattr(holder, f.name)
                    if isinstance(value, EXPRESSIONS) and not expression(value):
                        return False
            if isinstance(s, (h.Let, h.Load, h.Point)) and s.name:
                names.add(s.name)
            if isinstance(s, (h.Move, h.Repoint)) and s.name not in names:
                return False
            if access is not None and access.form == "pointer" and access.array not in names:
                return False
            if not all(body(getattr(s, part, ())) for part in ("then", "other", "body")):
                return False
        return True

    return body(kernel.body)
