"""Values that are kept across barriers share a place where none is written while another is still needed."""

from __future__ import annotations

from collections.abc import Mapping

from metalcore.engine.ir import Instr, Type


def owners(near: Mapping[Instr, set[Instr]]) -> dict[object, Instr]:
    """Whose place each value has. *near*: of each value, what may be needed of others when it is written.

    Phis and what comes to them go together first: where they do nothing is moved.
    """
    beside = {value: others - {value} for value, others in near.items()}
    for value, others in near.items():
        for other in others - {value}:
            beside[other].add(value)
    webs = {value: {value} for value in near}
    for phi in sorted((value for value in near if value.op == "phi"), key=_name):
        for arg in phi.args:
            if isinstance(arg, Instr) and arg in webs and arg.type is phi.type:
                _join(webs, phi, arg, beside)
    found: dict[object, Instr] = {}
    rooms: dict[Type, list[tuple[Instr, set[Instr]]]] = {}  # owner, and whose place it is
    for value in sorted(near, key=_name):
        if value in found:
            continue
        web, fitting = webs[value], rooms.setdefault(value.type, [])
        around = set().union(*(beside[member] for member in web))
        owner, members = next((room for room in fitting if not room[1] & around), (value, set[Instr]()))
        if owner is value:
            fitting.append((value, members))
        members |= web
        found |= dict.fromkeys(web, owner)
    return found


def _join(webs: dict[Instr, set[Instr]], phi: Instr, arg: Instr, beside: Mapping[Instr, set[Instr]]) -> None:
    ours, theirs = webs[phi], webs[arg]
    if ours is not theirs and not any(beside[member] & theirs for member in ours):
        ours |= theirs
        webs.update(dict.fromkeys(theirs, ours))


def _name(value: Instr) -> str:
    return value.name
