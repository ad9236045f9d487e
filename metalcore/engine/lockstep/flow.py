"""Control flow in lockstep.

Two copies of the program. In F ("full") all 32 lanes are active: nothing is masked, every branch is a real one, and a
branch whose lanes disagree jumps to P. In P ("partial") divergent regions are laid out one block after the other under
masks; where all lanes are together again it jumps back to F. A small region between a branch and its join is laid out
in F itself. This is F; `partial.py` is P.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import Block, quoted

from .operands import Operand
from .partial import Linear
from .phis import Moves

if TYPE_CHECKING:
    from .emitters import Emitters


class Flow:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.shapes = at, at.code, at.values, at.graph, at.shapes
        self.private_regions = 0
        self.full: set[Block] = set()

    def full_label(self, block: Block) -> str:
        return f"{self.at.loop_copies.prefix(block)}.{block.name}"

    def full_block(self, block: Block) -> None:
        self.code.place(quoted(self.full_label(block)))
        self.values.enter(block)
        self.values.mask = None
        self.at.polls.poll(block)
        self.at.body.block_code(block)
        branch = block.terminator
        if branch.op in ("ret", "unreachable"):
            self.code.jump("exit")
            return
        if not branch.args:
            self.at.phis.store(self.at.phis.moves(block, branch.targets[0]), None)
            self.code.jump(self.at.polls.full_target(block, branch.targets[0]))
            return
        if block not in self.shapes.divergence.branches:
            self.real_branch(
                block, self.values.scalar(branch.args[0]), [self.at.polls.full_target(block, t) for t in branch.targets]
            )
            return
        self.split_branch(block)

    def real_branch(self, block: Block, cond: Operand, labels: list[str]) -> None:
        moves = [self.at.phis.moves(block, t) for t in block.succs]
        stubs = [self.code.new_label("edge") if m else label for m, label in zip(moves, labels, strict=True)]
        self.at.polls.uniform_branch(block, cond, stubs)
        for stub, move, label in zip(stubs, moves, labels, strict=True):
            if move:
                self.code.place(stub)
                self.at.phis.store(move, None)
                self.code.jump(label)

    def split_branch(self, block: Block) -> None:
        """A branch whose lanes may disagree, reached with all lanes."""
        branch = block.terminator
        join = self.graph.ipdom.get(block)
        hammock = self.at.regions.hammock(block, join)
        moves = [self.at.phis.moves(block, t) for t in branch.targets]
        if self.at.regions.is_inline(block, hammock):
            assert hammock is not None
            self.private_region(block, self.at.agreement.condition(branch), moves, hammock, join)
            return
        all_true, none_true = self.at.agreement.of(branch)
        labels = [self.at.polls.full_target(block, t) for t in branch.targets]
        stubs = [self.code.new_label("edge") for _ in labels]
        disagree, mixed = self.code.new_label("disagree"), self.code.new_label("mixed")
        self.at.polls.agreed_branch(block, all_true, stubs[0], disagree)
        self.code.place(disagree)
        self.code.cond_br(none_true, stubs[1], mixed)
        for stub, move, label in zip(stubs, moves, labels, strict=True):
            self.code.place(stub)
            self.at.phis.store(move, None)
            self.code.jump(label)
        self.code.place(mixed)
        cond = self.at.agreement.condition(branch)
        if hammock is not None and self.at.regions.may_copy(hammock):
            self.private_region(block, cond, moves, hammock, join)
            return
        self.enter_partial(block, cond, moves)

    def private_region(
        self,
        block: Block,
        cond: list[Operand],
        moves: list[Moves],
        region: set[Block],
        join: Block | None,
    ) -> None:
        """Lay the region out here under masks; behind it all lanes are active again."""
        assert join is not None
        self.private_regions += 1
        linear = Linear(
            f"R{self.private_regions}", region, self.graph.loop_of[block], join, quoted(self.full_label(join))
        )
        saved_block = self.values.block
        for node in sorted(region, key=self.graph.position.__getitem__):
            self.at.masks.set(linear, node, False, False)
            if self.at.regions.is_header(node):
                self.at.masks.set(linear, node, True, False)
        self.values.mask = None
        self.at.partial.leave_block(linear, block, cond, moves, set())
        self.at.partial.write_region(linear)
        self.values.block = saved_block

    def enter_partial(self, block: Block, cond: list[Operand], moves: list[Moves]) -> None:
        """From F to P in the middle of the program: what has run so far ran with all lanes."""
        linear = self.at.partial.whole
        for node in self.graph.order:
            if self.graph.dominates(node, block):
                self.at.masks.set(linear, node, False, True)
                if self.at.regions.is_header(node):
                    self.at.masks.set(linear, node, True, True)
                    self.at.masks.keep(self.at.masks.back_key(linear, node), False)
            elif not self.is_set_later(node, block):
                self.at.masks.set(linear, node, self.at.regions.is_header(node), False)
        self.values.mask = None
        self.at.partial.is_used = True
        self.at.partial.leave_block(linear, block, cond, moves, set())

    def is_set_later(self, node: Block, block: Block) -> bool:
        """Does P, entered behind a block, set a node's mask before it looks at it? A loop's start sets all inside."""
        loop = self.graph.loop_of[node]
        if loop is not None and loop.header is node:
            loop = loop.parent
        is_passed = self.graph.position[node] < self.graph.position[block]
        return is_passed or (loop is not None and block not in loop.blocks)
