"""Regions between a divergent branch and its join: which are laid out in F, and which get a masked copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metalcore.engine.ir import Block, Instr, is_barrier, is_ignored

from .shape import Shape

if TYPE_CHECKING:
    from .emitters import Emitters

INLINE_LIMIT = 24  # instructions on both sides of a branch that are cheaper to run than to test for
MOST_COPIED = 256  # loads and stores in masked copies of regions: under a mask each is some 150 lines


class Regions:
    def __init__(self, at: Emitters) -> None:
        self.graph, self.shapes = at.graph, at.shapes
        self.copies_left = max(100, self.cost(set(self.graph.order)))  # instructions for masked regions
        self.accesses_left = MOST_COPIED

    def is_inline(self, block: Block, hammock: set[Block] | None) -> bool:
        """Is a region laid out in F under masks without asking whether the lanes agree?"""
        if hammock is None or self.has_loop(hammock) or any(has_barrier(b) for b in hammock):
            return False
        if accesses(hammock) and self.has_ends(block.terminator):
            return False  # two scalar compares decide, and mostly for all lanes alike
        return self.cost(hammock) <= INLINE_LIMIT

    def has_ends(self, branch: Instr) -> bool:
        test = branch.args[0]
        if not isinstance(test, Instr) or test.op != "icmp":
            return False
        assert branch.block is not None
        left, right = (self.shapes.at(a, branch.block) for a in test.args)
        return has_ends(test, left, right)

    def full_blocks(self) -> list[Block]:
        """Blocks that F can reach; the inside of inlined regions is not among them."""
        seen, work = {self.graph.entry}, [self.graph.entry]
        while work:
            block = work.pop()
            outs = block.succs
            if block in self.shapes.divergence.branches:
                join = self.graph.ipdom.get(block)
                if self.is_inline(block, self.hammock(block, join)):
                    assert join is not None
                    outs = [join]
            for out in outs:
                if out not in seen:
                    seen.add(out)
                    work.append(out)
        return [b for b in self.graph.order if b in seen]

    def hammock(self, block: Block, join: Block | None) -> set[Block] | None:
        """Blocks between a branch and its join, or None where the region is left in another way."""
        if join is None or join is self.graph.exit:
            return None
        seen: set[Block] = set()
        work = [s for s in block.succs if s is not join]
        level = self.graph.loop_of[block]
        while work:
            at = work.pop()
            if at in seen:
                continue
            if level is not None and (at not in level.blocks or at is level.header):
                return None
            if not at.succs:
                return None
            seen.add(at)
            work += [s for s in at.succs if s is not join]
        return seen

    def cost(self, blocks: set[Block]) -> int:
        return sum(cost(i) for b in blocks for i in b.instrs)

    def has_loop(self, blocks: set[Block]) -> bool:
        return any(self.graph.loop_of[b] is not None and self.graph.loop_of[b].header in blocks for b in blocks)  # type: ignore[union-attr]

    def may_copy(self, hammock: set[Block]) -> bool:
        """A masked copy of its own for a region, as long as all copies together are no larger than the kernel."""
        cost = self.cost(hammock)
        touched = accesses(hammock)
        if any(has_barrier(b) for b in hammock) or cost > self.copies_left or touched > self.accesses_left:
            return False
        self.copies_left -= cost
        self.accesses_left -= touched
        return True

    def is_header(self, block: Block) -> bool:
        loop = self.graph.loop_of[block]
        return loop is not None and loop.header is block


def has_ends(test: Instr, left: Shape, right: Shape) -> bool:
    """Whether a line of numbers is compared with a bound: two scalars, or one for a number of the line, decide."""
    return (
        str(test.extra["pred"])[-2:] in ("lt", "le", "gt", "ge", "eq", "ne")
        and test.args[0].type.kind == "int"
        and left.offsets is not None
        and right.offsets is not None
        and left.uniform != right.uniform
    )


def cost(instr: Instr) -> int:
    """Rough number of vector operations per chunk."""
    if instr.op in ("phi", "br", "getelementptr", "zext", "sext", "bitcast") or is_ignored(instr):
        return 0
    if instr.op in ("udiv", "sdiv", "urem", "srem"):
        return 12 if instr.type.bits <= 32 else 60
    if instr.op in ("load", "store"):
        return 2
    if instr.op in ("atomicrmw", "cmpxchg"):
        return 100
    if instr.op == "call" and instr.callee.startswith("__mc_"):
        return 30
    return 1


def accesses(blocks: Iterable[Block]) -> int:
    return sum(i.op in ("load", "store") for b in blocks for i in b.instrs)


def has_barrier(block: Block) -> bool:
    return any(is_barrier(i) for i in block.instrs)
