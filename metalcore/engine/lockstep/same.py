"""Which values are the same for all simdgroups of a threadgroup, and whether all of them pass every barrier alike."""

from __future__ import annotations

from collections.abc import Iterable

from metalcore.engine.ir import Block, Const, Instr, Value, is_barrier, is_ignored

from .cfg import Graph, reach
from .externals import EXTERNALS
from .roots import Roots
from .shapes import Shapes

# Thread attributes that differ from one simdgroup to the next; positions along an axis that a layout has not are 0.
_OWN = ("thread_index_in_threadgroup", "simdgroup_index_in_threadgroup", "quadgroup_index_in_threadgroup")
_POSITIONS = ("thread_position_in_grid", "thread_position_in_threadgroup")
_EFFECTS = frozenset(["alloca", "atomicrmw", "cmpxchg", "store", "fence"])
_ACROSS_LANES = ("simd_", "simdgroup_mma", "simdgroup_load")
_GROUP_MEMORY = frozenset(["shared", "tgarg"])


class Same:
    """A branch that simdgroups may take differently spoils what is chosen or counted by it."""

    def __init__(self, graph: Graph, shapes: Shapes, roots: Roots, layout: str, written: set[int] | None) -> None:
        """*written*: slots of buffers that the kernel may write, or None where it may write to any."""
        self.graph, self.shapes, self.roots, self.layout, self.written = graph, shapes, roots, layout, written
        self.differs: set[Instr] = set()
        self.apart: set[Block] = set()  # blocks that not all lanes of all simdgroups may pass alike
        self._own_ways: set[Block] = set()  # of those, the ones that simdgroups may pass differently
        self._meeting = _post_dominators(graph)
        barriers = [b for b in graph.order if any(is_barrier(i) for i in b.instrs)]
        self.quiet = quiet_regions(graph, barriers)
        self._spread()
        self.meet_at_barriers = not any(b in self.apart for b in barriers)
        self._looped = {b for loop in graph.loops if any(b in loop.blocks for b in barriers) for b in loop.blocks}
        self.once = {b for region in self.quiet for b in region if self._is_alike(region)}
        """Blocks between two barriers that compute the same for all simdgroups: one of them is enough."""

    def _is_alike(self, region: set[Block]) -> bool:
        return not any(i in self.differs for b in region for i in b.instrs if i.name)

    def is_kept(self, value: Instr) -> bool:
        """Whether one copy serves all simdgroups: it is not made anew while others still need the old one."""
        return value not in self.differs and (value.block not in self._looped or value.block in self.once)

    def _spread(self) -> None:
        branches = [b for b in self.graph.order if len(b.succs) > 1]
        for branch in branches:
            if branch in self.shapes.divergence.branches:
                self.apart |= self._region(branch)
        changed = True
        while changed:
            before = len(self.differs)
            for block in self.graph.order:
                for instr in block.instrs:
                    if instr not in self.differs and self._may_differ(instr):
                        self.differs.add(instr)
            for branch in [b for b in branches if self._is_own(b.terminator.args[0])]:
                branches.remove(branch)
                self._set_apart(branch)
            changed = len(self.differs) != before

    def _is_own(self, value: Value) -> bool:
        return isinstance(value, Instr) and value in self.differs

    def _region(self, branch: Block) -> set[Block]:
        """Everything from a branch to where its ways meet again."""
        join = self._meeting.get(branch)

        def onward(block: Block) -> list[Block]:
            return [s for s in block.succs if s is not join]

        return reach(onward(branch), onward)

    def _set_apart(self, branch: Block) -> None:
        region, join = self._region(branch), self._meeting.get(branch)
        self.apart |= region
        self._own_ways |= region
        for block in (*region, *([join] if join is not None else [])):
            self.differs.update(block.phis())
        for block in region:  # rounds of a loop that is left there are counted by each on its own
            loop = self.graph.loop_of[block]
            if loop is not None and (join is None or join not in loop.blocks):
                self.differs.update(block.instrs)

    def _may_differ(self, instr: Instr) -> bool:
        if instr.op in _EFFECTS:
            return True
        if instr.op == "call" and instr.callee.startswith("__mc_") and self._may_call_differ(instr):
            return True
        if instr.op == "load" and not self._is_constant(instr):
            return True
        return any(self._is_own(arg) for arg in instr.args)

    def _is_constant(self, load: Instr) -> bool:
        """Whether nothing that the threadgroup writes until the next barrier can be what is loaded."""
        is_quiet = any(load.block in region for region in self.quiet)
        for root in self.roots.of_address(load.args[0]):
            if is_quiet and root.kind in _GROUP_MEMORY:
                continue
            if root.kind == "table":
                continue
            if root.kind != "buffer" or self.written is None or root.slot in self.written:
                return False
        return not load.extra.get("atomic")

    def _may_call_differ(self, instr: Instr) -> bool:
        name = instr.callee[5:]
        if name in _OWN:
            return True
        if name.startswith("simdgroup_load"):
            return True  # what it reads is not looked at
        if name.startswith(_ACROSS_LANES):
            return instr.block in self._own_ways  # else the same lanes take part
        if name in _POSITIONS:
            dim = instr.args[0]
            axis = dim.value if isinstance(dim, Const) else None
            return not (self.layout == "line" and axis in (1, 2))
        return not name.startswith(("arg", "threadgroup_", "thread", "dispatch_", "simdgroups_", "quadgroups_"))


def quiet_regions(graph: Graph, barriers: list[Block]) -> list[set[Block]]:
    """Blocks up to the first barrier, or from one to the next, that write nothing, where no other way leads to them."""
    starts = [graph.entry, *(block.succs[0] for block in barriers if len(block.succs) == 1)]
    regions = []
    for start in starts:
        region = reach([start], lambda block: [] if block in barriers else block.succs)
        is_own = all(p in region and p not in barriers for b in region - {start} for p in b.preds)
        is_entered_once = len(start.preds) == (start is not graph.entry)
        if is_own and is_entered_once and not any(writes(i) for b in region for i in b.instrs):
            regions.append(region)
    return regions


def writes(instr: Instr) -> bool:
    if instr.op == "call" and instr.callee.startswith("__mc_"):
        return instr.callee.startswith("__mc_simdgroup_store")
    if instr.op == "call":
        return instr.type.kind == "void" and not is_ignored(instr)
    return instr.op in _EFFECTS


def may_be_written(between: Iterable[Instr]) -> bool:
    for instr in between:
        external = EXTERNALS.get(instr.callee) if instr.op == "call" else None
        orders = external is not None and external.emitter == "barrier"
        if writes(instr) or orders or instr.extra.get("atomic"):
            return True
    return False


def _post_dominators(graph: Graph) -> dict[Block, Block]:
    """The next block that every way from a block to the end of the kernel passes; none for some."""
    order = list(reversed(graph.order))
    every = set(graph.order)
    behind = {b: set(every) if b.succs else {b} for b in order}
    changed = True
    while changed:
        changed = False
        for block in order:
            if block.succs:
                new = set.intersection(*(behind[s] for s in block.succs)) | {block}
                if new != behind[block]:
                    behind[block], changed = new, True
    found: dict[Block, Block] = {}
    for block in order:
        strict = behind[block] - {block}
        nearest = [b for b in strict if len(behind[b]) == len(strict)]
        if nearest:
            found[block] = nearest[0]
    return found
