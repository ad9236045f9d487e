"""Control flow in lockstep.

Two copies of the program. In F ("full") all 32 lanes are active: nothing is masked, every branch is a real one, and a
branch whose lanes disagree jumps to P. In P ("partial") divergent regions are laid out one block after the other under
masks; where all lanes are together again it jumps back to F. A small region between a branch and its join is laid out
in F itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metalcore.engine.ir import I32, Block, Const, Instr, is_barrier, is_ignored, quoted

from .cfg import Loop
from .operands import FALSE, Operand, constant, zero
from .shapes import Shape

if TYPE_CHECKING:
    from .emitters import Emitters

END = "end"  # stands for leaving a level
INLINE_LIMIT = 24  # instructions on both sides of a branch that are cheaper to run than to test for
MOST_COPIED = 256  # loads and stores in masked copies of regions: under a mask each is some 150 lines


class Linear:
    """Order of a divergent region: which blocks may be waiting while another runs."""

    def __init__(self, name: str, blocks: set[Block], level: Loop | None, stop: Block | None, stop_label: str) -> None:
        self.name, self.blocks, self.level, self.stop, self.stop_label = name, blocks, level, stop, stop_label
        self.waiting: dict[object, set[object]] = {}  # (level, node) -> nodes that may be waiting
        self.reached: set[tuple[Loop | None, object]] = set()


class Flow:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.shapes = at, at.code, at.values, at.graph, at.shapes
        self.plan = at.plan
        self.regions = 0
        self.copies_left = max(100, self.region_cost(set(self.graph.order)))  # instructions for masked regions
        self.accesses_left = MOST_COPIED
        self.uses_partial = False
        self.full: set[Block] = set()
        self.partial = Linear("P", set(self.graph.order), None, None, "exit")

    # -- masks -------------------------------------------------------------------------------------
    # Kept as vectors, one for each chunk; in a large kernel as the bits of a number: a quarter of the code.
    def keep_mask(self, key: tuple[object, ...], mask: list[Operand] | bool) -> None:
        """*mask*: of lanes, or of all of them, or of none."""
        if self.plan.is_large:
            self.code.keep(key, constant(I32, -int(mask)) if isinstance(mask, bool) else self.values.bits_of(mask))
            return
        same = self.code.all_lanes if mask is True else zero(self.code.mask_type)
        for c in range(self.code.count):
            self.code.keep((*key, c), same if isinstance(mask, bool) else self.code.kept_mask(mask[c]))

    def kept_mask(self, key: tuple[object, ...], to: tuple[object, ...] | None = None) -> list[Operand]:
        """*to*: where it is kept from now on too."""
        if self.plan.is_large:
            bits = self.code.load_slot(key, I32)
            mask = self.code.from_bits(bits)
            self.values.known_bits[tuple(part.text for part in mask)] = bits
            if to is not None:
                self.code.keep(to, bits)
            return mask
        mask = []
        for c in range(self.code.count):
            kept = self.code.load_slot((*key, c), self.code.mask_type)
            if to is not None:
                self.code.keep((*to, c), kept)
            mask.append(self.code.read_mask(kept))
        return mask

    def add_lanes(self, key: tuple[object, ...], mask: list[Operand] | None) -> None:
        if mask is None:
            self.keep_mask(key, True)
        elif self.plan.is_large:
            old = self.code.load_slot(key, I32)
            self.code.keep(key, self.code.or_(old, self.values.bits_of(mask)))
        else:
            for c in range(self.code.count):
                old = self.code.load_slot((*key, c), self.code.mask_type)
                self.code.keep((*key, c), self.code.or_(old, self.code.kept_mask(mask[c])))

    def mask_key(self, linear: Linear, node: Block, entry: bool) -> tuple[object, ...]:
        return (linear.name, node, "entry" if entry else "mask")

    def back_key(self, linear: Linear, header: Block) -> tuple[object, ...]:
        return (linear.name, header, "back")

    def set_mask(self, linear: Linear, node: Block, entry: bool, mask: list[Operand] | bool) -> None:
        self.keep_mask(self.mask_key(linear, node, entry), mask)

    def get_mask(self, linear: Linear, node: Block, entry: bool) -> list[Operand]:
        return self.kept_mask(self.mask_key(linear, node, entry))

    def add_mask(self, linear: Linear, node: Block, entry: bool, mask: list[Operand] | None) -> None:
        self.add_lanes(self.mask_key(linear, node, entry), mask)

    def narrow_mask(self, cond: list[Operand] | Operand, negate: bool) -> list[Operand]:
        """The current mask and a condition (a name: uniform)."""
        out = []
        for c in range(self.code.count):
            if isinstance(cond, Operand):
                part = self.values.splat(cond)
            else:
                part = cond[c]
            if negate:
                part = self.code.not_(part)
            if self.values.mask is not None:
                part = self.code.and_(part, self.values.mask[c])
            out.append(part)
        return out

    # -- phis --------------------------------------------------------------------------------------
    def phi_moves(self, source: Block, target: Block) -> list[tuple[Instr, list[Operand] | Operand]]:
        """What the edge stores; names are computed before anything is stored."""
        self.at.watch.enter(source, target)
        moves: list[tuple[Instr, list[Operand] | Operand]] = []
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

    def phi_stores(self, moves: list[tuple[Instr, list[Operand] | Operand]], blend: list[Operand] | None) -> None:
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

    # -- F: all lanes active -----------------------------------------------------------------------
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
            self.phi_stores(self.phi_moves(block, branch.targets[0]), None)
            self.code.jump(self.at.polls.full_target(block, branch.targets[0]))
            return
        if block not in self.shapes.divergent_branches:
            self.real_branch(
                block, self.values.scalar(branch.args[0]), [self.at.polls.full_target(block, t) for t in branch.targets]
            )
            return
        self.split_branch(block)

    def real_branch(self, block: Block, cond: Operand, labels: list[str]) -> None:
        moves = [self.phi_moves(block, t) for t in block.succs]
        stubs = [self.code.new_label("edge") if m else label for m, label in zip(moves, labels, strict=True)]
        self.at.polls.uniform_branch(block, cond, stubs)
        for stub, move, label in zip(stubs, moves, labels, strict=True):
            if move:
                self.code.place(stub)
                self.phi_stores(move, None)
                self.code.jump(label)

    def split_branch(self, block: Block) -> None:
        """A branch whose lanes may disagree, reached with all lanes."""
        branch = block.terminator
        join = self.graph.ipdom.get(block)
        hammock = self.hammock(block, join)
        moves = [self.phi_moves(block, t) for t in branch.targets]
        if self.is_inline(block, hammock):
            assert hammock is not None
            self.private_region(block, self.condition(branch), moves, hammock, join)
            return
        all_true, none_true = self.agreement(branch)
        labels = [self.at.polls.full_target(block, t) for t in branch.targets]
        stubs = [self.code.new_label("edge") for _ in labels]
        disagree, mixed = self.code.new_label("disagree"), self.code.new_label("mixed")
        self.at.polls.agreed_branch(block, all_true, stubs[0], disagree)
        self.code.place(disagree)
        self.code.cond_br(none_true, stubs[1], mixed)
        for stub, move, label in zip(stubs, moves, labels, strict=True):
            self.code.place(stub)
            self.phi_stores(move, None)
            self.code.jump(label)
        self.code.place(mixed)
        cond = self.condition(branch)
        if hammock is not None and self.may_copy(hammock):
            self.private_region(block, cond, moves, hammock, join)
            return
        self.enter_partial(block, cond, moves)

    def may_copy(self, hammock: set[Block]) -> bool:
        """A masked copy of its own for a region, as long as all copies together are no larger than the kernel."""
        cost = self.region_cost(hammock)
        touched = accesses(hammock)
        if any(has_barrier(b) for b in hammock) or cost > self.copies_left or touched > self.accesses_left:
            return False
        self.copies_left -= cost
        self.accesses_left -= touched
        return True

    def condition(self, branch: Instr) -> list[Operand]:
        test = branch.args[0]
        if isinstance(test, Instr) and self.at.body.is_late_test(test):
            for c in range(self.code.count):
                if (test, c) not in self.values.vectors:
                    self.values.vectors[test, c] = self.at.ops.compute(test, c)
        return [self.code.freeze(self.values.chunk(branch.args[0], c)) for c in range(self.code.count)]

    def agreement(self, branch: Instr) -> tuple[Operand, Operand]:
        """Scalars: do all lanes say yes, do all say no? A compare of a line with a bound needs only its two ends."""
        test = branch.args[0]
        if isinstance(test, Instr) and test.op == "icmp":
            ends = self.compare_ends(test)
            if ends is not None:
                return ends
        cond = self.condition(branch)
        all_true = self.code.all(cond)
        any_true = self.code.any(cond)
        return all_true, self.code.not_(any_true)

    def compare_ends(self, test: Instr) -> tuple[Operand, Operand] | None:
        pred = str(test.extra["pred"])
        left, right = (self.values.shape(a) for a in test.args)
        if not has_ends(test, left, right):
            return None
        line = left if right.uniform else right
        value, bound = (test.args[0], test.args[1]) if right.uniform else (test.args[1], test.args[0])
        assert line.offsets is not None
        bits = value.type.bits
        low, high = min(line.offsets), max(line.offsets)
        if high - low >= 1 << (bits - 1):
            return None
        base = self.values.scalar(value)
        mask = (1 << bits) - 1
        if pred in ("eq", "ne"):
            away = self.code.sub(self.values.scalar(bound), base)
            if low:
                away = self.code.sub(away, low & mask)
            differ = self.code.icmp("ugt", away, high - low)
            for guard in self.at.guards.wrap_guards(value):
                differ = self.code.and_(differ, guard)
            return (FALSE, differ) if pred == "eq" else (differ, FALSE)
        least = self.code.add(base, low & mask) if low else base
        signed, other = pred[0], self.values.scalar(bound)
        below = pred[1:] == ("lt" if value is test.args[0] else "gt")

        def holds(x: Operand) -> Operand:
            a, b = (x, other) if value is test.args[0] else (other, x)
            return self.code.icmp(pred, a, b)

        if below:
            # least + span < bound without wrap-around is least < bound - span, which does not change in a loop.
            limit = self.code.intrinsic(f"{signed}sub.sat", other, constant(other.type, high - low))
            all_true = self.code.icmp(f"{signed}lt", least, limit)
        most = self.code.add(base, high & mask)
        straight = self.code.icmp(f"{signed}le", least, most)  # no wrap-around between the ends
        first, second = holds(least), holds(most)
        if not below:
            both = self.code.and_(first, second)
            all_true = self.code.and_(both, straight)
        either = self.code.or_(first, second)
        neither = self.code.not_(either)
        none_true = self.code.and_(neither, straight)
        for guard in self.at.guards.wrap_guards(value):  # else the two ends are not those of a line
            all_true, none_true = (self.code.and_(known, guard) for known in (all_true, none_true))
        return all_true, none_true

    # -- regions -----------------------------------------------------------------------------------
    def is_inline(self, block: Block, hammock: set[Block] | None) -> bool:
        """Is a region laid out in F under masks without asking whether the lanes agree?"""
        if hammock is None or self.has_loop(hammock) or any(has_barrier(b) for b in hammock):
            return False
        if accesses(hammock) and self.has_ends(block.terminator):
            return False  # two scalar compares decide, and mostly for all lanes alike
        return self.region_cost(hammock) <= INLINE_LIMIT

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
            if block in self.shapes.divergent_branches:
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

    def region_cost(self, blocks: set[Block]) -> int:
        return sum(cost(i) for b in blocks for i in b.instrs)

    def has_loop(self, blocks: set[Block]) -> bool:
        return any(self.graph.loop_of[b] is not None and self.graph.loop_of[b].header in blocks for b in blocks)  # type: ignore[union-attr]

    def private_region(
        self,
        block: Block,
        cond: list[Operand],
        moves: list[list[tuple[Instr, list[Operand] | Operand]]],
        region: set[Block],
        join: Block | None,
    ) -> None:
        """Lay the region out here under masks; behind it all lanes are active again."""
        assert join is not None
        self.regions += 1
        linear = Linear(f"R{self.regions}", region, self.graph.loop_of[block], join, quoted(self.full_label(join)))
        saved_block = self.values.block
        for node in sorted(region, key=self.graph.position.__getitem__):
            self.set_mask(linear, node, False, False)
            if self.is_header(node):
                self.set_mask(linear, node, True, False)
        self.values.mask = None
        self.leave_block(linear, block, cond, moves, set())
        self.write_region(linear)
        self.values.block = saved_block

    def enter_partial(
        self, block: Block, cond: list[Operand], moves: list[list[tuple[Instr, list[Operand] | Operand]]]
    ) -> None:
        """From F to P in the middle of the program: what has run so far ran with all lanes."""
        linear = self.partial
        for node in self.graph.order:
            if self.graph.dominates(node, block):
                self.set_mask(linear, node, False, True)
                if self.is_header(node):
                    self.set_mask(linear, node, True, True)
                    self.keep_mask(self.back_key(linear, node), False)
            elif not self.is_set_later(node, block):
                self.set_mask(linear, node, self.is_header(node), False)
        self.values.mask = None
        self.uses_partial = True
        self.leave_block(linear, block, cond, moves, set())

    def is_set_later(self, node: Block, block: Block) -> bool:
        """Does P, entered behind a block, set a node's mask before it looks at it? A loop's start sets all inside."""
        loop = self.graph.loop_of[node]
        if loop is not None and loop.header is node:
            loop = loop.parent
        is_passed = self.graph.position[node] < self.graph.position[block]
        return is_passed or (loop is not None and block not in loop.blocks)

    def is_header(self, block: Block) -> bool:
        loop = self.graph.loop_of[block]
        return loop is not None and loop.header is block

    # -- P: linear order ---------------------------------------------------------------------------
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

    def give_mask(self, linear: Linear, source: Block, target: Block, mask: list[Operand] | None) -> None:
        """Add lanes to the block they go to next."""
        if target is linear.stop:
            return
        loop = self.graph.loop_of.get(target)
        if loop is not None and loop.header is target:
            if source in loop.blocks:  # back edge
                self.add_lanes(self.back_key(linear, target), mask)
                return
            self.add_mask(linear, target, True, mask)
            return
        self.add_mask(linear, target, False, mask)

    def leave_block(
        self,
        linear: Linear,
        block: Block,
        cond: list[Operand] | Operand | None,
        moves: list[list[tuple[Instr, list[Operand] | Operand]]],
        waiting: set[object],
    ) -> None:
        """The terminator of a block under masks. `cond` is a name where it is uniform."""
        level = self.graph.loop_of[block]
        targets = block.succs
        if self.plan.is_large:
            self.values.mask_bits()  # before the code branches: both sides use them
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
                for stub, target, move in zip(stubs, targets, moves, strict=True):
                    self.code.place(stub)
                    self.edge(linear, block, target, self.values.mask, move)
                    self.code.jump(self.next_after(linear, level, waiting, target))
                return
        masks = [self.narrow_mask(cond, False), self.narrow_mask(cond, True)]
        for target, mask, move in zip(targets, masks, moves, strict=True):
            self.edge(linear, block, target, mask, move, isinstance(cond, Operand))
        nodes_set = {self.node_of(level, t, linear) for t in targets}
        self.code.jump(self.go(linear, level, waiting | nodes_set))

    def edge(
        self,
        linear: Linear,
        source: Block,
        target: Block,
        mask: list[Operand] | None,
        moves: list[tuple[Instr, list[Operand] | Operand]],
        guarded: bool = False,
    ) -> None:
        self.give_mask(linear, source, target, mask)
        if guarded and any(isinstance(names, Operand) for _, names in moves):
            # A uniform branch taken apart: only the side with lanes may set uniform values.
            assert mask is not None
            skip, do = self.code.new_label("skip"), self.code.new_label("set")
            self.code.cond_br(self.code.any(mask), do, skip)
            self.code.place(do)
            self.phi_stores(moves, mask)
            self.code.jump(skip)
            self.code.place(skip)
            return
        loop = self.graph.loop_of.get(target)
        back = loop is not None and loop.header is target and source in loop.blocks
        self.phi_stores(moves, None if back or self.is_first_edge(linear, source, target) else mask)

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
        if node is END and level is not linear.level and level is not None and level not in self.shapes.divergent_loops:
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
            if self.is_header(block):
                assert level is not None
                self.loop_start(linear, level)
            elif (level, block) in linear.reached:
                self.partial_block(linear, block)
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
                self.code.cond_br(self.code.any(mask), inside, skip)
                self.code.place(inside)
            self.set_mask(linear, header, False, mask)
            self.code.jump(quoted(f"{linear.name}.again.{header.name}"))
        # Lanes may come in the middle, in a loop inside this one too.
        live = any(level is not None and level.header in loop.blocks for level, _ in linear.reached)
        if not entered and not live:
            return
        self.code.place(quoted(f"{linear.name}.again.{header.name}"))
        for block in sorted(loop.blocks, key=self.graph.position.__getitem__):
            if block is header:
                continue
            self.set_mask(linear, block, False, False)
            if self.is_header(block):
                self.set_mask(linear, block, True, False)
        self.keep_mask(self.back_key(linear, header), False)
        linear.reached.add((loop, header))
        self.block_under_mask(linear, header, self.get_mask(linear, header, False))

    def loop_end(self, linear: Linear, loop: Loop) -> None:
        if (loop, END) not in linear.reached:
            return
        header = loop.header
        self.code.place(quoted(f"{linear.name}.end.{header.name}"))
        self.values.forget()
        mask = self.kept_mask(self.back_key(linear, header), self.mask_key(linear, header, False))
        waiting = set(linear.waiting.get((loop.parent, header), set()))
        for _, target in loop.exits():
            waiting.add(self.node_of(loop.parent, target, linear))
        if not waiting:
            waiting = {END}
        out = self.go(linear, loop.parent, waiting)
        self.code.cond_br(self.code.any(mask), quoted(f"{linear.name}.again.{header.name}"), out)

    def take_mask(self, linear: Linear, level: Loop | None, node: Block, entry: bool) -> None:
        """Load the node's mask: its own, or that of the block which the same lanes passed before."""
        leader = self.leader(linear, level, node)
        if leader is not node:
            leader_entry = self.graph.loop_of[leader] is not level
            self.values.mask = self.get_mask(linear, leader, leader_entry)
            self.set_mask(linear, node, entry, self.values.mask)
        else:
            self.values.mask = self.get_mask(linear, node, entry)

    def leader(self, linear: Linear, level: Loop | None, node: Block) -> Block:
        """The earliest block of the level that exactly the same lanes pass."""
        found = self.graph.leader(level, node)
        return found if found in linear.blocks else node

    def partial_block(self, linear: Linear, block: Block) -> None:
        level = self.graph.loop_of[block]
        self.code.place(quoted(f"{linear.name}.{block.name}"))
        self.values.forget()
        self.take_mask(linear, level, block, entry=False)
        assert self.values.mask is not None
        mask = self.values.mask
        waiting = linear.waiting.get((level, block), set())
        if (
            not waiting
            and linear is self.partial
            and block in self.full
            and (len(block.preds) > 1 or self.follows_loop(block))
        ):
            stay, together = self.code.new_label("stay"), self.code.new_label("together")
            self.code.cond_br(self.code.all(mask), together, stay)
            self.code.place(together)
            self.at.polls.enter_full(block)
            self.code.jump(quoted(self.full_label(block)))
            self.code.place(stay)
            self.values.forget()
        if waiting and self.needs_lanes(block):
            some = self.code.new_label("some")
            skip = self.go(linear, level, set(waiting))
            self.code.cond_br(self.code.any(mask), some, skip)
            self.code.place(some)
        self.block_under_mask(linear, block, mask)

    def follows_loop(self, block: Block) -> bool:
        return any(self.graph.loop_of[p] is not self.graph.loop_of[block] for p in block.preds)

    def block_under_mask(self, linear: Linear, block: Block, mask: list[Operand]) -> None:
        level = self.graph.loop_of[block]
        self.values.enter(block)
        self.values.mask = mask
        self.at.polls.poll(block)
        self.at.body.block_code(block)
        branch = block.terminator
        waiting = set(linear.waiting.get((level, block), set()))
        moves = [self.phi_moves(block, t) if t is not None else [] for t in branch.targets]
        cond: list[Operand] | Operand | None = None
        if branch.op == "br" and branch.args:
            if block in self.shapes.divergent_branches:
                cond = self.condition(branch)
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
            if instr.op == "br" and instr.args and block not in self.shapes.divergent_branches:
                return True
            if instr.name and self.shapes.get(instr).uniform and instr.op in ("udiv", "sdiv", "urem", "srem"):
                return True
        return total > 8


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
