"""Accumulators of 8x8 multiplications that may stay in one place in memory.

`acc = a * b + acc` round a loop is a phi, a multiplication and the two elements of its result. Where nothing else needs
the old value, all of them share one home: the multiplication works in place and nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from metalcore.engine.ir import Instr, Value

from .cfg import Graph
from .shapes import Shapes

HOME_BYTES = 256


@dataclass(eq=False)
class Home:
    values: list[Instr] = field(default_factory=list)
    element: dict[Instr, int] = field(default_factory=dict)


def is_mma(instr: Value) -> bool:
    return isinstance(instr, Instr) and instr.op == "call" and instr.callee.startswith("__mc_simdgroup_mma")


def find_homes(graph: Graph, shapes: Shapes, users: dict[Instr, list[Instr]]) -> dict[Value, Home]:
    """The home of each multiplication, of its results and of the phis that carry them (uniform loops only)."""
    homes: dict[Value, Home] = {}
    for block in graph.order:
        for instr in block.instrs:
            if not is_mma(instr):
                continue
            parts = _results(instr, users)
            if parts is None:
                continue
            old = [instr.args[4], instr.args[5]]
            home = None
            if all(isinstance(v, Instr) and v in homes and users.get(v) == [instr] for v in old):
                first, second = homes[old[0]], homes[old[1]]
                home = first if first is second else None
            elif _carried(old, parts, instr, graph, shapes, users):
                home = Home()
                for e, phi in enumerate(old):
                    assert isinstance(phi, Instr)
                    _add(home, phi, e, homes)
            if home is None:
                continue
            homes[instr] = home
            for e, part in enumerate(parts):
                _add(home, part, e, homes)
    for home in dict.fromkeys(homes.values()):
        for phi in [v for v in home.values if v.op == "phi"]:
            _add_outer(home, phi, graph, shapes, users, homes)
    return homes


def _add_outer(
    home: Home, phi: Instr, graph: Graph, shapes: Shapes, users: dict[Instr, list[Instr]], homes: dict[Value, Home]
) -> None:
    """Sums that enter a loop as the phi of the loop around it, and leave for that phi, stay where they are."""
    while phi.block is not None and (loop := graph.loop_of[phi.block]) is not None and loop.parent is not None:
        around = loop.parent
        before = [v for v, block in zip(phi.args, phi.targets, strict=True) if block not in loop.blocks]
        if len(before) != 1 or around in shapes.divergence.loops:
            return
        outer = before[0]
        if not isinstance(outer, Instr) or outer.op != "phi" or outer.block is not around.header:
            return
        after = [v for v, block in zip(outer.args, outer.targets, strict=True) if block in around.blocks]
        e = home.element[phi]
        stays = all(isinstance(v, Instr) and homes.get(v) is home and home.element[v] == e for v in after)
        if not stays or users.get(outer) != [phi] or not shapes.get(outer).varying:
            return
        _add(home, outer, e, homes)
        phi = outer


def _add(home: Home, value: Instr, e: int, homes: dict[Value, Home]) -> None:
    home.values.append(value)
    home.element[value] = e
    homes[value] = home


def _results(mma: Instr, users: dict[Instr, list[Instr]]) -> list[Instr] | None:
    """The two elements, where each is taken out once."""
    parts: dict[int, Instr] = {}
    for user in users.get(mma, []):
        path = user.extra.get("path")
        if user.op != "extractvalue" or not isinstance(path, list) or path[0] in parts:
            return None
        parts[path[0]] = user
    return [parts[0], parts[1]] if len(parts) == 2 else None


def _carried(
    old: list[Value], parts: list[Instr], mma: Instr, graph: Graph, shapes: Shapes, users: dict[Instr, list[Instr]]
) -> bool:
    """Are the old sums phis of a loop's header that only this chain of multiplications reads?"""
    for phi in old:
        if not isinstance(phi, Instr) or phi.op != "phi" or phi.block is None:
            return False
        loop = graph.loop_of[phi.block]
        if (
            loop is None
            or loop.header is not phi.block
            or loop in shapes.divergence.loops
            or mma.block not in loop.blocks
        ):
            return False
        if users.get(phi) != [mma] or not shapes.get(phi).varying:
            return False
    return all(isinstance(p, Instr) for p in parts)
