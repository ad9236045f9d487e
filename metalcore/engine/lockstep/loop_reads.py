"""Reads that a loop makes in every round, each a fixed step behind the one before: sanitize mode records all of them in
the first round.

Nothing else may come between them: no barrier, and no write to memory that may be the same. Then only what is read is
of interest, not when.
"""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.ir import Block, Const, Global, Instr, Value, gep_terms

from .cfg import Graph
from .counts import Count, count_of
from .shapes import Shapes

_MOST_START = 1 << 30  # so that no counter passes the end of its numbers in MOST_ROUNDS
MOST_ROUNDS = 1 << 16
_READS = ("__mc_read", "__mc_has_no_value")
_WRITES = ("__mc_write", "__mc_copy", "__mc_lose_value", "__mc_simdgroup_store")
_ORDERS = ("__mc_threadgroup_barrier", "__mc_simdgroup_barrier", "__mc_fence")


@dataclass(frozen=True)
class LoopRead:
    count: Count
    start: int  # of the counter
    step: int  # of the counter
    ahead: int  # bytes from one round to the next

    def known_rounds(self) -> int | None:
        """How often the loop runs, where its bound is a number."""
        bound = self.count.bound
        if not isinstance(bound, Const) or bound.value is None:
            return None
        away = bound.value - self.start
        if self.count.pred == "ne" and (away <= 0 or away % self.step):
            return 1
        return max(1, -(-away // self.step))


def loop_reads(graph: Graph, shapes: Shapes) -> dict[Instr, LoopRead]:
    """Hooks of such reads."""
    found: dict[Instr, LoopRead] = {}
    for loop in graph.loops:
        count = count_of(loop, shapes)
        if count is None or loop.latch in shapes.divergence.branches or not _is_simple(count):
            continue
        instrs = [i for block in loop.blocks for i in block.instrs]
        if any(i.callee.startswith((*_WRITES, *_ORDERS)) or i.callee.endswith("_atomically") for i in instrs):
            continue
        start, step = (v.value for v in (count.start, count.step) if isinstance(v, Const))
        assert start is not None and step is not None
        for instr in instrs:
            if instr.callee in _READS and instr.block is not None and graph.dominates(instr.block, loop.latch):
                ahead = _Slopes(count, graph).of(instr.args[0])
                if ahead:
                    found[instr] = LoopRead(count, start, step, ahead)
    return found


def _is_simple(count: Count) -> bool:
    """Counts up from a number, the next value is tested, and how many rounds there are is easily computed."""
    start, step = count.start, count.step
    if (
        not isinstance(start, Const)
        or not isinstance(step, Const)
        or count.tested is count.phi
        or count.phi.type.bits < 32
    ):
        return False
    if start.value is None or step.value is None or not 0 <= start.value < _MOST_START or step.value <= 0:
        return False
    return count.pred in ("ult", "slt") or (count.pred == "ne" and (step.value == 1 or isinstance(count.bound, Const)))


class _Slopes:
    """By how much a value grows from round to round; None where that is not one number."""

    def __init__(self, count: Count, graph: Graph) -> None:
        self.count, self.loop, self.graph = count, count.loop, graph

    def of(self, value: Value) -> int | None:
        if not isinstance(value, Instr) or value.block not in self.loop.blocks:
            return 0 if isinstance(value, Instr | Const | Global) else None
        if value.op == "phi":
            return self._phi(value)
        if value.op == "getelementptr":
            parts = [self.of(value.args[0])]
            for scale, index in gep_terms(value):
                slope = 0 if isinstance(index, int) else self._wide(index, "nsw")
                parts.append(None if slope is None else scale * slope)
            return _sum(parts)
        if value.op in ("zext", "sext"):
            return self._wide(value.args[0], "nuw" if value.op == "zext" else "nsw")
        if value.type.kind == "int" and value.type.bits == 64:
            return self._arithmetic(value)
        return None

    def _phi(self, phi: Instr) -> int | None:
        if phi is self.count.phi:
            return self.count.step.value if isinstance(self.count.step, Const) else None
        if phi.block is not self.loop.header or phi.type.kind != "int" or phi.type.bits != 64:
            return None
        after = next((a for a, b in zip(phi.args, phi.targets, strict=True) if b is self.loop.latch), None)
        if isinstance(after, Instr) and after.op == "add" and after.args[0] is phi and isinstance(after.args[1], Const):
            return after.args[1].value
        return None

    def _wide(self, value: Value, flag: str) -> int | None:
        """The same of a value that is extended to 64 bits: it must not pass the end of its numbers on the way."""
        if value.type.bits == 64 or not isinstance(value, Instr) or value.block not in self.loop.blocks:
            return self.of(value)
        if value is self.count.phi:  # below its bound, and far from the end
            return self.of(value)
        flags = value.extra.get("flags")
        is_known = isinstance(flags, list) and (flag in flags or "disjoint" in flags)
        return self._arithmetic(value, flag) if is_known and self._runs_always(value.block) else None

    def _arithmetic(self, value: Instr, flag: str = "") -> int | None:
        def part(operand: Value) -> int | None:
            return self._wide(operand, flag) if flag else self.of(operand)

        flags = value.extra.get("flags")
        if value.op == "add" or (value.op == "or" and isinstance(flags, list) and "disjoint" in flags):
            return _sum([part(value.args[0]), part(value.args[1])])
        factor = value.args[1].value if len(value.args) == 2 and isinstance(value.args[1], Const) else None
        slope = part(value.args[0]) if value.op in ("mul", "shl") and factor is not None else None
        if slope is None or factor is None:
            return None
        return slope * factor if value.op == "mul" else slope << factor

    def _runs_always(self, block: Block) -> bool:
        return self.graph.dominates(block, self.loop.latch)


def _sum(parts: list[int | None]) -> int | None:
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None
