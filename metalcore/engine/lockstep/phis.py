"""What an edge of the control flow stores: the phis of the block that it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import Block, Const, Instr

from .operands import Operand

if TYPE_CHECKING:
    from .emitters import Emitters

Moves = list[tuple[Instr, list[Operand] | Operand]]


class Phis:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan

    def moves(self, source: Block, target: Block) -> Moves:
        """What the edge stores; names are computed before anything is stored."""
        self.at.watch.enter(source, target)
        moves: Moves = []
        for phi in target.phis():
            value = next(a for a, t in zip(phi.args, phi.targets, strict=True) if t is source)
            if isinstance(value, Const) and value.text in ("undef", "poison"):
                self.values.blank.add(phi)
                continue
            if self.at.products.is_at_home(phi, value):
                continue
            shape = self.shapes.get(phi)
            saved, self.values.block = self.values.block, target if self.values.behind(source, target) else source
            if shape.varying:
                moves.append((phi, [self.values.chunk(value, c) for c in range(self.code.count)]))
            else:
                moves.append((phi, self.values.scalar(value)))
            self.values.block = saved
        return moves

    def store(self, moves: Moves, blend: Sequence[Operand] | None) -> None:
        olds: dict[tuple[Instr, int], Operand] = {}
        if blend is not None:
            for phi, names in moves:
                if isinstance(names, list):
                    for c in range(self.code.count):
                        olds[phi, c] = self._old(phi, c)
        at_home: dict[Instr, list[Operand]] = {}
        for phi, names in moves:
            if isinstance(names, Operand):
                self.code.keep((phi, "scalar"), names)
                continue
            for c, name in enumerate(names):
                if blend is not None:
                    name = self.code.select(blend[c], name, olds[phi, c])
                if phi in self.plan.homes:
                    at_home.setdefault(phi, []).append(name)
                else:
                    self.values.store_vector((phi, c), name)
        self.at.products.keep_at_home(at_home)
        if self.at.plan.is_cut:
            self.at.cuts.keep_phis([phi for phi, _ in moves])

    def _old(self, phi: Instr, c: int) -> Operand:
        if phi in self.plan.homes:
            return self.at.products.lanes_at_home(phi, c)
        return self.values.load_vector((phi, c), phi.type)
