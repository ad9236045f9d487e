"""Small value ranges, enough to see that an index cannot leave its array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import Const, Global, Instr, Value, gep_terms

from .counts import count_of

if TYPE_CHECKING:
    from .shapes import Shapes

# How many threads, simdgroups or quadgroups there are: at most so many, or so many for each simdgroup of a threadgroup.
_COUNTS = {"thread_index_in_simdgroup": 32, "thread_index_in_quadgroup": 4}
_COUNTS_OF_SIMDGROUP = {
    "simdgroup_index_in_threadgroup": 1,
    "thread_index_in_threadgroup": 32,
    "thread_position_in_threadgroup": 32,
    "quadgroup_index_in_threadgroup": 8,
}


class Ranges:
    def __init__(self, shapes: Shapes | None, most_simdgroups: int = SIMDGROUPS) -> None:
        """Without shapes less is known: nothing of numbers that are folded lane by lane, nor of counters.

        *most_simdgroups*: of a threadgroup. Idle lanes of the last one have positions too.
        """
        self.shapes = shapes
        self._counts = _COUNTS | {name: count * most_simdgroups for name, count in _COUNTS_OF_SIMDGROUP.items()}
        self._memo: dict[Instr, tuple[int, int] | None] = {}

    def of(self, value: Value, depth: int = 0) -> tuple[int, int] | None:
        """Inclusive bounds of an integer, read as unsigned; None where nothing is known."""
        if isinstance(value, Const):
            return (value.value, value.value) if value.value is not None and value.value >= 0 else None
        if isinstance(value, Global) or depth > 12:
            return None
        if value not in self._memo:
            self._memo[value] = None
            self._memo[value] = self._of(value, depth)
        return self._memo[value]

    def _of(self, value: Instr, depth: int) -> tuple[int, int] | None:
        known = self.shapes.get(value).known if self.shapes is not None else None
        if known is not None and min(known) >= 0:
            return min(known), max(known)
        op = value.op
        if op == "phi":
            return self._counter(value)
        if op == "call" and value.callee.startswith("__mc_"):
            count = self._counts.get(value.callee[5:])
            return (0, count - 1) if count is not None else None
        if op == "call" and value.callee.startswith(("llvm.umin.", "llvm.umax.")):
            top = (1 << value.type.bits) - 1
            first, second = (self.of(arg, depth + 1) or (0, top) for arg in value.args[:2])
            pick = min if value.callee.startswith("llvm.umin.") else max
            return pick(first[0], second[0]), pick(first[1], second[1])
        if op in ("zext", "freeze") or (op == "sext"):
            inner = self.of(value.args[0], depth + 1)
            if inner is None:
                return (
                    (0, (1 << value.args[0].type.bits) - 1) if op == "zext" and value.args[0].type.bits <= 16 else None
                )
            if op == "sext" and inner[1] >= 1 << (value.args[0].type.bits - 1):
                return None
            return inner
        if op == "and":
            tops = [r[1] for r in (self.of(a, depth + 1) for a in value.args) if r is not None]
            return (0, min(tops)) if tops else None
        pair = (
            [self.of(a, depth + 1) for a in value.args]
            if op in ("add", "mul", "shl", "lshr", "ashr", "udiv", "urem", "or")
            else []
        )
        if len(pair) != 2:
            return None
        a, b = pair
        if op == "urem" and b is not None and b[0] > 0:
            return 0, b[1] - 1
        if a is None or b is None:
            return None
        top = (1 << value.type.bits) - 1
        if op in ("add", "or"):
            result = (a[0] + b[0] if op == "add" else 0, a[1] + b[1])
        elif op == "mul":
            result = a[0] * b[0], a[1] * b[1]
        elif op == "shl" and b[0] == b[1] < value.type.bits:
            result = a[0] << b[0], a[1] << b[0]
        elif b[0] == b[1] and (op == "lshr" or (op == "ashr" and a[1] <= top >> 1)):
            result = a[0] >> b[0], a[1] >> b[0]
        elif op == "udiv" and b[0] > 0:
            result = a[0] // b[1], a[1] // b[0]
        else:
            return None
        return result if result[1] <= top else None

    def _counter(self, phi: Instr) -> tuple[int, int] | None:
        """Of a loop that all lanes pass alike, from one number up to another."""
        assert phi.block is not None
        if self.shapes is None:
            return None
        loop = self.shapes.graph.loop_of.get(phi.block)
        if loop is None or loop.header is not phi.block or loop in self.shapes.divergence.loops:
            return None
        count = count_of(loop, self.shapes)
        if count is None or count.phi is not phi or not self.shapes.get(phi).uniform:
            return None
        return count.span(self)

    def offset_range(self, pointer: Value) -> tuple[int, int] | None:
        """Bounds of the byte offset of a pointer from the start of its root."""
        low = high = 0
        while isinstance(pointer, Instr) and pointer.op == "getelementptr":
            for scale, index in gep_terms(pointer):
                if isinstance(index, int):
                    low, high = low + index, high + index
                    continue
                inner = self.of(index)
                if inner is None:
                    return None
                low, high = low + inner[0] * scale, high + inner[1] * scale
            pointer = pointer.args[0]
        if isinstance(pointer, Global) or (
            isinstance(pointer, Instr)
            and (pointer.op == "alloca" or pointer.callee in ("__mc_arg", "__mc_threadgroup_arg"))
        ):
            return low, high
        return None
