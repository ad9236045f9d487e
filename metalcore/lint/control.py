"""Control dependence: which branches decide whether a block runs."""

from __future__ import annotations

from metalcore.engine.ir import Block
from metalcore.engine.lockstep.cfg import Graph, immediate_dominators


class Control:
    """For each block the branching blocks that it depends on, directly or through others."""

    def __init__(self, graph: Graph) -> None:
        blocks = graph.order
        leave = Block("lint.exit")
        reverse: dict[Block, list[Block]] = {block: [] for block in [*blocks, leave]}
        ways = {block: [s for s in block.succs if s.terminator.op != "unreachable"] for block in blocks}
        for block in blocks:
            for after in ways[block] or [leave]:
                reverse[after].append(block)
        for loop in graph.loops:  # one that never ends still gets a way out
            if not loop.exits():
                reverse[leave].append(loop.latch)
        above = immediate_dominators(leave, reverse)  # the next block that every way passes
        direct: dict[Block, set[Block]] = {block: set() for block in blocks}
        for block in blocks:
            if len(ways[block]) < 2 or block not in above:
                continue
            for after in ways[block]:
                at = after
                while at is not above[block] and at is not leave and at in above:
                    direct[at].add(block)
                    at = above[at]
        self.of: dict[Block, frozenset[Block]] = {}
        for block in blocks:
            seen: set[Block] = set()
            todo = [block]
            while todo:
                fresh = direct[todo.pop()] - seen
                seen |= fresh
                todo += fresh
            self.of[block] = frozenset(seen)
