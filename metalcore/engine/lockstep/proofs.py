"""Accesses to threadgroup memory that the size of the group shows to be in bounds.

`tile[lid.y][i]` stays inside where groups are small enough: not known when the kernel is compiled, but before its first
instruction runs. One flag says it of all such accesses of the kernel; where it does not hold, each has its own test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from metalcore.engine.ir import I64, Block, Const, Instr, Value, gep_terms

from .frame import ALL_INSIDE, SIZE
from .operands import TRUE, Operand

if TYPE_CHECKING:
    from .addresses import Address
    from .emitters import Emitters

KINDS = ("shared", "tgarg", "table")


class Proofs:
    def __init__(self, at: Emitters) -> None:
        self.at, self.entry, self.plan = at, at.code.entry, at.plan
        self.is_full = True  # lanes that are no threads have positions beyond the group
        self.is_shown = False  # code is written that runs where the flag is set
        self.asked: set[Block] = set()  # blocks whose code looks at it
        self._known: dict[object, Operand] = {}
        self._tests: dict[Operand, None] = {}

    def covers(self, where: Address) -> bool:
        """Does the flag say it of this access too?"""
        bounds = self.plan.bounds
        if not self.is_full or bounds.keep_tests or len(where.roots) != 1:
            return False
        root = next(iter(where.roots))
        if root.kind not in KINDS or bounds.shapes.wrapping.may_wrap(where.pointer):
            return False
        known = bounds.ranges.offset_range(where.pointer)
        if known is None or known[0] < 0:
            return False
        most = self._most_offset(where.pointer)
        if isinstance(most, int):
            return False  # the size of the group has no say
        key = (most, where.size, root)
        if key not in self._known:
            end = self.entry.add(most, where.size)
            self._known[key] = self.entry.icmp("ule", end, self.at.addresses.root_size(root))
        self._tests[self._known[key]] = None
        return True

    def shows(self, where: Address) -> bool:
        """Is it known here that the access is in bounds?"""
        return self.is_shown and self.covers(where)

    def finish(self) -> None:
        """Once all accesses are known."""
        flag = TRUE
        for test in self._tests:
            flag = self.entry.and_(flag, test)
        if self._tests:
            self.entry.as_(ALL_INSIDE).freeze(flag)

    # -- the largest values, in the group that runs ----------------------------------------------------
    # All that is computed here grows with its operands, and `Ranges` knows that nothing of it wraps around.
    def _most_offset(self, pointer: Value) -> int | Operand:
        total: int | Operand = 0
        while isinstance(pointer, Instr) and pointer.op == "getelementptr":
            for scale, index in gep_terms(pointer):
                more = index if isinstance(index, int) else self._operation("mul", [self._most(index), scale])
                total = self._operation("add", [total, more])
            pointer = pointer.args[0]
        return total

    def _most(self, value: Value) -> int | Operand:
        ranges = self.plan.bounds.ranges
        known = ranges.of(value)
        assert known is not None
        if not isinstance(value, Instr) or known[0] == known[1] or self.at.shapes.get(value).known is not None:
            return known[1]
        if value.op == "call" and value.callee.startswith("__mc_"):
            most = self._most_id(value)
            return known[1] if most is None else most
        if any(ranges.of(arg) is None for arg in value.args):
            return known[1]
        if value.op in ("zext", "sext", "freeze"):
            return self._most(value.args[0])
        is_shift = value.op in ("shl", "lshr") and isinstance(value.args[1], Const)
        if value.op not in ("add", "or", "mul") and not is_shift:
            return known[1]
        return self._operation("add" if value.op == "or" else value.op, [self._most(v) for v in value.args])

    def _most_id(self, call: Instr) -> Operand | None:
        name, dim = call.callee[5:], call.args[0]
        axis = dim.value if isinstance(dim, Const) else None
        if name == "thread_position_in_threadgroup" and axis in (0, 1, 2):
            return self._once(("side", axis), lambda: self.entry.zext(self.entry.sub(SIZE[axis], 1), I64))
        if name not in ("thread_index_in_threadgroup", "simdgroup_index_in_threadgroup"):
            return None
        last = self._once("last", self._last_thread)
        return last if name[0] == "t" else self._once("last simdgroup", lambda: self.entry.lshr(last, 5))

    def _last_thread(self) -> Operand:
        threads = self.entry.mul(self.entry.mul(SIZE[0], SIZE[1]), SIZE[2])
        return self.entry.zext(self.entry.sub(threads, 1), I64)

    def _once(self, key: object, make: Callable[[], Operand]) -> Operand:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _operation(self, op: str, values: Sequence[int | Operand]) -> int | Operand:
        a, b = values
        if isinstance(a, int) and isinstance(b, int):
            return {"add": a + b, "mul": a * b, "shl": a << min(b, 64), "lshr": a >> b}[op]
        if (op == "mul" and b == 1) or (op != "mul" and b == 0):
            return a
        if op == "add" and a == 0:
            return b
        return self._once((op, a, b), lambda: self.entry.binary(op, a, b))
