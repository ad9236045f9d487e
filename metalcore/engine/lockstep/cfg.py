"""Control-flow graph: canonical form, dominators, loops, and a topological order that keeps loops together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from metalcore.engine.ir import I1, VOID, Block, Const, Function, Instr
from metalcore.errors import UnsupportedFeature


@dataclass(eq=False)
class Loop:
    """A natural loop with one latch. `blocks` includes those of inner loops."""

    header: Block
    latch: Block
    blocks: set[Block]
    parent: Loop | None = None
    children: list[Loop] = field(default_factory=list)

    def exits(self) -> list[tuple[Block, Block]]:
        found = [(b, s) for b in self.blocks for s in b.succs if s not in self.blocks]
        return sorted(found, key=lambda edge: (edge[0].name, edge[1].name))

    def __repr__(self) -> str:
        return f"<loop {self.header.name}>"


# -- canonical form --------------------------------------------------------------------------------
def canonicalise(function: Function) -> None:
    """Switches become branches, unreachable blocks go, every loop gets a single latch."""
    _drop_unreachable(function)
    _lower_switches(function)
    _drop_same_target_branches(function)
    function.link()
    _merge_latches(function)
    function.link()


def _drop_unreachable(function: Function) -> None:
    seen = {function.blocks[0]}
    work = [function.blocks[0]]
    while work:
        for succ in work.pop().succs:
            if succ not in seen:
                seen.add(succ)
                work.append(succ)
    function.blocks = [b for b in function.blocks if b in seen]
    for block in function.blocks:
        for phi in block.phis():
            keep = [i for i, source in enumerate(phi.targets) if source in seen]
            phi.args = [phi.args[i] for i in keep]
            phi.targets = [phi.targets[i] for i in keep]
    function.link()


def _lower_switches(function: Function) -> None:
    for block in list(function.blocks):
        switch = block.terminator
        if switch.op != "switch":
            continue
        default, *cases = switch.targets
        values = switch.extra["cases"]
        assert isinstance(values, list)
        block.instrs.pop()
        sources: dict[Block, list[Block]] = {}
        current = block
        for i, (value, target) in enumerate(zip(values, cases, strict=True)):
            test = Instr(
                "icmp",
                I1,
                [switch.args[0], Const(switch.args[0].type, str(value))],
                name=f"%mc.case.{block.name}.{i}",
                extra={"pred": "eq"},
                line=switch.line,
                block=current,
            )
            last = i == len(cases) - 1
            other = default if last else Block(f"mc.switch.{block.name}.{i}")
            branch = Instr("br", VOID, [test], targets=[target, other], line=switch.line, block=current)
            current.instrs += [test, branch]
            sources.setdefault(target, []).append(current)
            if last:
                sources.setdefault(default, []).append(current)
            else:
                function.blocks.insert(function.blocks.index(current) + 1, other)
                current = other
        if not cases:
            current.instrs.append(Instr("br", VOID, [], targets=[default], line=switch.line, block=current))
            sources[default] = [current]
        for target, froms in sources.items():
            for phi in target.phis():
                value = next(a for a, t in zip(phi.args, phi.targets, strict=True) if t is block)
                pairs = [(a, t) for a, t in zip(phi.args, phi.targets, strict=True) if t is not block]
                pairs += [(value, source) for source in dict.fromkeys(froms)]
                phi.args, phi.targets = [p[0] for p in pairs], [p[1] for p in pairs]


def _drop_same_target_branches(function: Function) -> None:
    for block in function.blocks:
        branch = block.terminator
        if branch.op == "br" and len(branch.targets) == 2 and branch.targets[0] is branch.targets[1]:
            branch.args, branch.targets = [], branch.targets[:1]
            for phi in branch.targets[0].phis():
                kept: dict[Block, int] = {}
                for i, source in enumerate(phi.targets):
                    kept.setdefault(source, i)
                phi.args = [phi.args[i] for i in kept.values()]
                phi.targets = list(kept)


def _merge_latches(function: Function) -> None:
    """Give each loop header with several back edges one latch block of its own."""
    idom = dominators(function)
    for header in list(function.blocks):
        latches = [p for p in header.preds if dominates(idom, header, p)]
        if len(latches) < 2:
            continue
        latch = Block(f"mc.latch.{header.name}")
        function.blocks.append(latch)
        jump = Instr("br", VOID, [], targets=[header], block=latch)
        for phi in header.phis():
            inner = [(a, t) for a, t in zip(phi.args, phi.targets, strict=True) if t in latches]
            outer = [(a, t) for a, t in zip(phi.args, phi.targets, strict=True) if t not in latches]
            merged = Instr(
                "phi",
                phi.type,
                [a for a, _ in inner],
                name=f"{phi.name}.latch",
                targets=[t for _, t in inner],
                block=latch,
            )
            latch.instrs.append(merged)
            phi.args = [a for a, _ in outer] + [merged]
            phi.targets = [t for _, t in outer] + [latch]
        latch.instrs.append(jump)
        for old in latches:
            old.terminator.targets = [latch if t is header else t for t in old.terminator.targets]
        function.link()
    _drop_same_target_branches(function)


# -- dominators ------------------------------------------------------------------------------------
def postorder(entry: Block, successors: dict[Block, list[Block]]) -> list[Block]:
    seen, order = {entry}, []
    stack = [(entry, iter(successors[entry]))]
    while stack:
        block, rest = stack[-1]
        for succ in rest:
            if succ not in seen:
                seen.add(succ)
                stack.append((succ, iter(successors[succ])))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def immediate_dominators(entry: Block, successors: dict[Block, list[Block]]) -> dict[Block, Block]:
    """Cooper, Harvey and Kennedy's iteration; the entry is its own dominator."""
    order = postorder(entry, successors)
    number = {b: i for i, b in enumerate(order)}
    preds: dict[Block, list[Block]] = {b: [] for b in order}
    for block in order:
        for succ in successors[block]:
            preds[succ].append(block)
    idom: dict[Block, Block] = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            new: Block | None = None
            for pred in preds[block]:
                if pred not in idom:
                    continue
                if new is None:
                    new = pred
                    continue
                a, b = pred, new
                while a is not b:
                    while number[a] < number[b]:
                        a = idom[a]
                    while number[b] < number[a]:
                        b = idom[b]
                new = a
            assert new is not None
            if idom.get(block) is not new:
                idom[block] = new
                changed = True
    return idom


def dominators(function: Function) -> dict[Block, Block]:
    return immediate_dominators(function.blocks[0], {b: b.succs for b in function.blocks})


def dominates(idom: dict[Block, Block], a: Block, b: Block) -> bool:
    while True:
        if a is b:
            return True
        up = idom[b]
        if up is b:
            return False
        b = up


def reach(starts: Iterable[Block], onward: Callable[[Block], Iterable[Block]]) -> set[Block]:
    """All blocks that lie on ways from some blocks; `onward` says where a way goes on."""
    found, todo = set[Block](), list(starts)
    while todo:
        block = todo.pop()
        if block not in found:
            found.add(block)
            todo += onward(block)
    return found


# -- loops -----------------------------------------------------------------------------------------
class Graph:
    """A function's blocks with everything that the later steps ask about their order."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.entry = function.blocks[0]
        self.idom = dominators(function)
        self.loops: list[Loop] = []
        self.loop_of: dict[Block, Loop | None] = {b: None for b in function.blocks}
        self._find_loops()
        self.exit = Block("mc.exit")  # virtual; everything that returns goes there
        self.order = self._order(None)
        self.position = {b: i for i, b in enumerate(self.order)}
        self.ipdom: dict[Block, Block] = {}
        self._leaders: dict[Loop | None, dict[Block, Block]] = {}
        self._level_ipdom: dict[Loop | None, dict[Block, Block]] = {}
        for loop in [None, *self.loops]:
            self.ipdom.update(self._post_dominators(loop))

    def dominates(self, a: Block, b: Block) -> bool:
        return dominates(self.idom, a, b)

    def _find_loops(self) -> None:
        position = {
            b: i for i, b in enumerate(reversed(postorder(self.entry, {b: b.succs for b in self.function.blocks})))
        }
        for block in self.function.blocks:
            for succ in block.succs:
                if position[succ] <= position[block]:
                    if not self.dominates(succ, block):
                        raise UnsupportedFeature("irreducible control flow (a jump into the middle of a loop)")
                    self.loops.append(self._natural_loop(succ, block))
        self.loops.sort(key=lambda loop: len(loop.blocks))
        for loop in self.loops:
            for block in loop.blocks:
                if self.loop_of[block] is None:
                    self.loop_of[block] = loop
        for i, loop in enumerate(self.loops):
            loop.parent = next((p for p in self.loops[i + 1 :] if loop.header in p.blocks and p is not loop), None)
            if loop.parent:
                loop.parent.children.append(loop)

    @staticmethod
    def _natural_loop(header: Block, latch: Block) -> Loop:
        blocks, work = {header}, [latch]
        while work:
            block = work.pop()
            if block not in blocks:
                blocks.add(block)
                work += block.preds
        return Loop(header, latch, blocks)

    def child_at(self, block: Block, within: Loop | None) -> Loop | None:
        """The loop directly inside `within` that contains the block, if any."""
        loop = self.loop_of[block]
        while loop is not None and loop is not within:
            if loop.parent is within:
                return loop
            loop = loop.parent
        return None

    def node(self, block: Block, within: Loop | None) -> Block:
        """What stands for a block in the acyclic graph of one loop level: itself, or its inner loop's header."""
        child = self.child_at(block, within)
        return child.header if child else block

    def level_successors(self, within: Loop | None) -> dict[Block, list[Block]]:
        """The acyclic graph of one level; leaving the level (exit, back edge, return) leads to the virtual exit."""
        member = set(within.blocks) if within else set(self.function.blocks)
        graph: dict[Block, list[Block]] = {self.exit: []}
        for block in member:
            at = self.node(block, within)
            outs = graph.setdefault(at, [])
            succs: list[Block] = block.succs or [self.exit]
            for succ in succs:
                if succ is self.exit or succ not in member or (within and succ is within.header):
                    target = self.exit
                else:
                    target = self.node(succ, within)
                    if target is at:
                        continue
                if target not in outs:
                    outs.append(target)
        for outs in graph.values():
            outs.sort(key=lambda b: b is not self.exit)
        return graph

    def _order(self, within: Loop | None) -> list[Block]:
        graph = self.level_successors(within)
        start = within.header if within else self.entry
        flat: list[Block] = []
        for block in reversed(postorder(start, graph)):
            if block is self.exit:
                continue
            child = self.child_at(block, within)
            flat += self._order(child) if child else [block]
        return flat

    def leader(self, level: Loop | None, node: Block) -> Block:
        """The earliest node of the level that exactly the lanes of `node` pass, once each."""
        if level not in self._leaders:
            self._leaders[level] = self._find_leaders(level)
        return self._leaders[level].get(node, node)

    def _find_leaders(self, level: Loop | None) -> dict[Block, Block]:
        graph = self.level_successors(level)
        start = level.header if level else self.entry
        idom = immediate_dominators(start, graph)
        ipdom = self._level_ipdom[level]
        leaders: dict[Block, Block] = {}
        for block in reversed(postorder(start, graph)):
            leaders[block] = block
            above = block
            while block is not self.exit and idom[above] is not above:
                above = idom[above]
                at = above
                while at in ipdom and at is not block:
                    at = ipdom[at]
                if at is block:
                    leaders[block] = leaders[above]
                    break
        return leaders

    def _post_dominators(self, within: Loop | None) -> dict[Block, Block]:
        graph = self.level_successors(within)
        reverse: dict[Block, list[Block]] = {b: [] for b in graph}
        for block, outs in graph.items():
            if not outs and block is not self.exit:  # an endless inner loop never leaves
                reverse[self.exit].append(block)
            for out in outs:
                reverse[out].append(block)
        found = immediate_dominators(self.exit, reverse)
        found.pop(self.exit)
        self._level_ipdom[within] = found
        return {b: d for b, d in found.items() if self.loop_of[b] is within}
