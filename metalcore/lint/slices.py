"""Backward slices: what a value is made of."""

from __future__ import annotations

from collections.abc import Iterable

from metalcore.engine.ir import Const, Instr, Value
from metalcore.lint.program import Program, attribute, constant

_DEEPEST = 12


def made_of(values: Iterable[Value], *, through_memory: bool = True) -> set[Instr]:
    """Every instruction that the values depend on, through arithmetic and, where wanted, addresses of loads."""
    seen: set[Instr] = set()
    todo = [v for v in values if isinstance(v, Instr)]
    while todo:
        instr = todo.pop()
        if instr in seen:
            continue
        seen.add(instr)
        if instr.op == "load" and not through_memory:
            continue
        todo += [arg for arg in instr.args if isinstance(arg, Instr)]
    return seen


def attributes(values: Iterable[Value], *, through_memory: bool = True) -> set[tuple[str, int]]:
    """The thread attributes that values depend on, with their dimension."""
    found = set()
    for instr in made_of(values, through_memory=through_memory):
        name = attribute(instr)
        if name:
            found.add((name, (constant(instr.args[0]) or 0) if instr.args else 0))
    return found


def leads_to(program: Program, start: Instr) -> set[Instr]:
    """Every instruction that depends on *start* through arithmetic."""
    seen: set[Instr] = set()
    todo = [start]
    while todo:
        for user in program.users.get(todo.pop(), []):
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return seen


def key(value: Value, inside: tuple[Instr, ...] = ()) -> object:
    """A form that two computations of the same number share: counters of two loops that start and step alike too."""
    if isinstance(value, Const):
        return value.text
    if not isinstance(value, Instr):
        return value.name
    if value in inside:
        return ("again", len(inside) - inside.index(value))
    if len(inside) > _DEEPEST:
        return id(value)
    details = (value.op, value.callee, str(value.extra.get("pred", "")))
    arguments = [key(arg, (*inside, value)) for arg in value.args]
    return (details, tuple(sorted(arguments, key=repr) if value.op == "phi" else arguments))
