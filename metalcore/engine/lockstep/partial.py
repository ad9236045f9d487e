"""P: blocks one after the other under masks, in an order in which lanes that are ahead wait for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import Block, quoted

from .cfg import Loop
from .operands import Operand
from .phis import Moves
from .regions import cost
from .turns import ends_with_barrier

if TYPE_CHECKING:
    from .emitters import Emitters

END = "end"  # stands for leaving a level


class Linear:
    """Order of a divergent region: which blocks may be waiting while another runs."""

    def __init__(self, name: str, blocks: set[Block], level: Loop | None, stop: Block | None, stop_label: str) -> None:
        self.name, self.blocks, self.level, self.stop, self.stop_label = name, blocks, level, stop, stop_label
        self.waiting: dict[object, set[object]] = {}  # (level, node) -> nodes that may be waiting
        self.reached: set[tuple[Loop | None, object]] = set()


class Partial:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.shapes = at, at.code, at.values, at.graph, at.shapes
        self.plan = at.plan
        self.whole = Linear("P", set(self.graph.order), None, None, "exit")
        self.is_used = False

    def node_of(self, level: Loop | None, target: Block, linear: Linear) -> object:
        if target is linear.stop:
            return END
        if level is not None and (target is level.header or target not in level.blocks):
            return END
        return self.graph.node(target, level)

    def position(self, node: object) -> int:
        return 1 << 30 if node is END else self.graph.position[node]  # type: ignore[index]

    def label_of(self, linear: Linear, level: Loop | None, node: object) -> str:
        """Label of a node; leaving the level goes to its end label."""
        linear.reached.add((level, node))
        if node is END:
            if level is linear.level:
                return linear.stop_label
            assert level is not None
            return quoted(f"{linear.name}.end.{level.header.name}")
        assert isinstance(node, Block)
        return quoted(f"{linear.name}.{node.name}")

    def go(self, linear: Linear, level: Loop | None, wait: set[object]) -> str:
        """Label of the first waiting node; the others wait for it."""
        first = min(wait, key=self.position)
        linear.waiting.setdefault((level, first), set()).update(wait - {first})
        return self.label_of(linear, level, first)

    def give_mask(self, linear: Linear, source: Block, target: Block, mask: Sequence[Operand] | None) -> None:
        """Add lanes to the block they go to next."""
        if target is linear.stop:
            return
        loop = self.graph.loop_of.get(target)
        if loop is not None and loop.header is target:
            if source in loop.blocks:  # back edge
                self.at.masks.add_lanes(self.at.masks.back_key(linear, target), mask)
                return
            self.at.masks.add(linear, target, True, mask)
            return
        self.at.masks.add(linear, target, False, mask)

    def leave_block(
        self,
        linear: Linear,
        block: Block,
        cond: Sequence[Operand] | Operand | None,
        moves: list[Moves],
        waiting: set[object],
    ) -> None:
        """The terminator of a block under masks. `cond` is a name where it is uniform."""
        level = self.graph.loop_of[block]
        targets = block.succs
        if not targets:
            if waiting or level is not None:
                self.code.jump(self.go(linear, level, waiting | {END}))
            else:
                self.code.jump(self.label_of(linear, level, END))
            return
        if cond is None:
            self.edge(linear, block, targets[0], self.values.mask, moves[0])
            self.code.jump(self.next_after(linear, level, waiting, targets[0]))
            return
        if isinstance(cond, Operand):
            nodes = [self.node_of(level, t, linear) for t in targets]
            if not waiting or min(map(self.position, waiting)) > min(map(self.position, nodes)):
                stubs = [self.code.new_label("edge") for _ in targets]
                self.code.cond_br(cond, stubs[0], stubs[1])
                saved = self.at.lanes.snapshot()
                for stub, target, move in zip(stubs, targets, moves, strict=True):
                    self.code.place(stub)
                    self.edge(linear, block, target, self.values.mask, move)
                    self.code.jump(self.next_after(linear, level, waiting, target))
                    self.at.lanes.restore(saved)
                return
        masks = [self.at.masks.narrow(cond, False), self.at.masks.narrow(cond, True)]
        for target, mask, move in zip(targets, masks, moves, strict=True):
            self.edge(linear, block, target, mask, move, isinstance(cond, Operand))
        nodes_set = {self.node_of(level, t, linear) for t in targets}
        self.code.jump(self.go(linear, level, waiting | nodes_set))

    def edge(
        self,
        linear: Linear,
        source: Block,
        target: Block,
        mask: Sequence[Operand] | None,
        moves: Moves,
        guarded: bool = False,
    ) -> None:
        self.give_mask(linear, source, target, mask)
        if guarded and any(isinstance(names, Operand) for _, names in moves):
            # A uniform branch taken apart: only the side with lanes may set uniform values.
            assert mask is not None
            skip, do = self.code.new_label("skip"), self.code.new_label("set")
            self.code.cond_br(self.values.any(mask), do, skip)
            saved = self.at.lanes.snapshot()
            self.code.place(do)
            self.at.phis.store(moves, mask)
            self.at.lanes.restore(saved)
            self.code.jump(skip)
            self.code.place(skip)
            return
        loop = self.graph.loop_of.get(target)
        back = loop is not None and loop.header is target and source in loop.blocks
        self.at.phis.store(moves, None if back or self.is_first_edge(linear, source, target) else mask)

    def is_first_edge(self, linear: Linear, source: Block, target: Block) -> bool:
        """No lane can be waiting at the target yet, so there is nothing to keep."""
        level = self.graph.loop_of.get(target)
        if level is not None and level.header is target:
            level = level.parent
        if self.graph.loop_of[source] is not level:
            return False
        position = self.graph.position
        return all(
            p is source or position[p] > position[source] or self.graph.dominates(target, p) for p in target.preds
        )

    def next_after(self, linear: Linear, level: Loop | None, waiting: set[object], target: Block) -> str:
        """Where to go when all current lanes take one edge."""
        node = self.node_of(level, target, linear)
        loops = self.shapes.divergence.loops
        if node is END and level is not linear.level and level is not None and level not in loops:
            if target is level.header:
                return quoted(f"{linear.name}.again.{level.header.name}")
            outer = level.parent
            held = linear.waiting.get((outer, level.header), set())
            return self.next_after(linear, outer, set(held), target)
        return self.go(linear, level, waiting | {node})

    def write_region(self, linear: Linear) -> None:
        for block in self.graph.order:
            if block not in linear.blocks:
                continue
            level = self.graph.loop_of[block]
            if self.at.regions.is_header(block):
                assert level is not None
                self.loop_start(linear, level)
            elif (level, block) in linear.reached:
                self.block(linear, block)
            for loop in self.loops_ending_at(block, linear):
                self.loop_end(linear, loop)

    def loops_ending_at(self, block: Block, linear: Linear) -> list[Loop]:
        out = []
        loop = self.graph.loop_of[block]
        while loop is not None and loop.header in linear.blocks:
            if max(self.graph.position[b] for b in loop.blocks) == self.graph.position[block]:
                out.append(loop)
            loop = loop.parent
        return out

    def loop_start(self, linear: Linear, loop: Loop) -> None:
        header = loop.header
        entered = (loop.parent, header) in linear.reached
        if entered:
            self.code.place(quoted(f"{linear.name}.{header.name}"))
            self.values.forget()
            self.take_mask(linear, loop.parent, header, entry=True)
            waiting = linear.waiting.get((loop.parent, header), set())
            assert self.values.mask is not None
            mask = self.values.mask
            if waiting:
                inside = self.code.new_label("enter")
                skip = self.go(linear, loop.parent, set(waiting))
                self.code.cond_br(self.values.any(mask), inside, skip)
                self.code.place(inside)
            self.at.masks.set(linear, header, False, mask)
            self.code.jump(quoted(f"{linear.name}.again.{header.name}"))
        # Lanes may come in the middle, in a loop inside this one too.
        live = any(level is not None and level.header in loop.blocks for level, _ in linear.reached)
        if not entered and not live:
            return
        self.code.place(quoted(f"{linear.name}.again.{header.name}"))
        for block in sorted(loop.blocks, key=self.graph.position.__getitem__):
            if block is header:
                continue
            self.at.masks.set(linear, block, False, False)
            if self.at.regions.is_header(block):
                self.at.masks.set(linear, block, True, False)
        self.at.masks.keep(self.at.masks.back_key(linear, header), False)
        linear.reached.add((loop, header))
        self.block_under_mask(linear, header, self.at.masks.get(linear, header, False))

    def loop_end(self, linear: Linear, loop: Loop) -> None:
        if (loop, END) not in linear.reached:
            return
        header = loop.header
        self.code.place(quoted(f"{linear.name}.end.{header.name}"))
        self.values.forget()
        mask = self.at.masks.kept(self.at.masks.back_key(linear, header), self.at.masks.key(linear, header, False))
        waiting = set(linear.waiting.get((loop.parent, header), set()))
        for _, target in loop.exits():
            waiting.add(self.node_of(loop.parent, target, linear))
        if not waiting:
            waiting = {END}
        out = self.go(linear, loop.parent, waiting)
        self.code.cond_br(self.values.any(mask), quoted(f"{linear.name}.again.{header.name}"), out)

    def take_mask(self, linear: Linear, level: Loop | None, node: Block, entry: bool) -> None:
        """Load the node's mask: its own, or that of the block which the same lanes passed before."""
        leader = self.leader(linear, level, node)
        if leader is not node:
            leader_entry = self.graph.loop_of[leader] is not level
            self.values.mask = self.at.masks.get(linear, leader, leader_entry)
            self.at.masks.set(linear, node, entry, self.values.mask)
        else:
            self.values.mask = self.at.masks.get(linear, node, entry)

    def leader(self, linear: Linear, level: Loop | None, node: Block) -> Block:
        """The earliest block of the level that exactly the same lanes pass."""
        found = self.graph.leader(level, node)
        return found if found in linear.blocks else node

    def block(self, linear: Linear, block: Block) -> None:
        level = self.graph.loop_of[block]
        self.code.place(quoted(f"{linear.name}.{block.name}"))
        self.values.forget()
        self.take_mask(linear, level, block, entry=False)
        assert self.values.mask is not None
        mask = self.values.mask
        waiting = linear.waiting.get((level, block), set())
        if (
            not waiting
            and linear is self.whole
            and block in self.at.flow.full
            and (len(block.preds) > 1 or self.follows_loop(block))
        ):
            stay, together = self.code.new_label("stay"), self.code.new_label("together")
            self.code.cond_br(self.values.all(mask), together, stay)
            self.code.place(together)
            self.at.polls.enter_full(block)
            self.code.jump(quoted(self.at.flow.full_label(block)))
            self.code.place(stay)
            self.values.forget()
        if waiting and self.needs_lanes(block):
            some = self.code.new_label("some")
            skip = self.go(linear, level, set(waiting))
            self.code.cond_br(self.values.any(mask), some, skip)
            self.code.place(some)
        self.block_under_mask(linear, block, mask)

    def follows_loop(self, block: Block) -> bool:
        return any(self.graph.loop_of[p] is not self.graph.loop_of[block] for p in block.preds)

    def block_under_mask(self, linear: Linear, block: Block, mask: Sequence[Operand]) -> None:
        level = self.graph.loop_of[block]
        self.values.enter(block)
        self.values.mask = mask
        self.at.polls.poll(block)
        self.at.body.block_code(block)
        if self.plan.is_cut and ends_with_barrier(block):  # the turn is over, and the next begins in F
            self.code.unreachable()
            return
        branch = block.terminator
        waiting = set(linear.waiting.get((level, block), set()))
        moves = [self.at.phis.moves(block, t) if t is not None else [] for t in branch.targets]
        cond: Sequence[Operand] | Operand | None = None
        if branch.op == "br" and branch.args:
            if block in self.shapes.divergence.branches:
                cond = self.at.agreement.condition(branch)
            else:
                cond = self.values.scalar(branch.args[0])
        self.leave_block(linear, block, cond, moves, waiting)

    def needs_lanes(self, block: Block) -> bool:
        """Must the block be skipped where no lane wants it? Uniform work would run on garbage; long work is wasted."""
        for succ in block.succs:
            if any(not self.shapes.get(phi).varying for phi in succ.phis()):
                return True
        total = 0
        for instr in block.instrs:
            total += cost(instr)
            if instr.op in ("load", "store", "atomicrmw", "cmpxchg"):
                return True
            if instr.op == "call" and instr.callee.startswith("__mc_"):
                return True
            if instr.op == "br" and instr.args and block not in self.shapes.divergence.branches:
                return True
            if instr.name and self.shapes.get(instr).uniform and instr.op in ("udiv", "sdiv", "urem", "srem"):
                return True
        return total > 8
