"""What a branch on which lanes disagree makes divergent: blocks that it parts, joins behind it, loops it leaves."""

from __future__ import annotations

from metalcore.engine.ir import Block

from .cfg import Graph, Loop


class Divergence:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.branches: set[Block] = set()
        self.loops: set[Loop] = set()
        self.joins: set[Block] = set()
        self.partial: set[Block] = set()  # blocks that only some lanes may reach

    def add(self, branch: Block) -> None:
        """Lanes disagree at the end of this block."""
        self.branches.add(branch)
        self._mark_partial(branch)
        self._spread(branch)

    def _mark_partial(self, branch: Block) -> None:
        join = self.graph.ipdom.get(branch)
        todo = [block for block in branch.succs if block is not join]
        while todo:
            block = todo.pop()
            if block not in self.partial:
                self.partial.add(block)
                todo += [after for after in block.succs if after is not join]

    def _spread(self, start: Block) -> None:
        """Find the joins and the loops that a divergent branch makes divergent (disjoint paths by labels)."""
        level = self.graph.loop_of[start]
        seeds = [(succ, succ) for succ in start.succs]
        self._walk(level, seeds, start)

    def _walk(self, level: Loop | None, seeds: list[tuple[Block, Block]], start: Block) -> None:
        graph = self.graph
        labels: dict[Block, Block] = {}
        leaving: list[tuple[Block, Block | None]] = []  # (label, exit target or None for the back edge)

        def reach(source_label: Block, target: Block) -> None:
            if level is not None and target is level.header:
                leaving.append((source_label, None))
                return
            if level is not None and target not in level.blocks:
                leaving.append((source_label, target))
                return
            node = graph.node(target, level)
            if node not in labels:
                labels[node] = source_label
            elif labels[node] is not source_label:
                labels[node] = node
                self.joins.add(node)

        for target, label in seeds:
            reach(label, target)
        members = level.blocks if level else set(graph.function.blocks)
        for block in graph.order:
            if block not in members or block not in labels or graph.node(block, level) is not block:
                continue
            child = graph.child_at(block, level)
            outs = [t for _, t in child.exits()] if child else block.succs
            for out in dict.fromkeys(outs):
                reach(labels[block], out)
        if level is None:
            return
        distinct = {label for label, _ in leaving}
        exits = [target for _, target in leaving if target is not None]
        if len(distinct) > 1 and exits:
            back = any(target is None for _, target in leaving)
            if back:
                self.loops.add(level)
            # Lanes leave at different times or by different doors: each door is a path of its own further out.
            doors = level.exits() if back else [(start, t) for t in exits]
            targets = list(dict.fromkeys(t for _, t in doors))
            if len(doors) > 1:
                counts = {t: sum(1 for _, d in doors if d is t) for t in targets}
                for target, count in counts.items():
                    if count > 1:
                        self.joins.add(target)
            if len(targets) > 1 or back:
                self._walk(level.parent, [(t, t) for t in targets], level.header)
