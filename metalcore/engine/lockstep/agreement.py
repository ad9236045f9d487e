"""Whether the lanes of a branch agree. A compare of a line of numbers with a bound is decided by its two ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import Instr

from .operands import FALSE, Operand, constant
from .regions import has_ends

if TYPE_CHECKING:
    from .emitters import Emitters


class Agreement:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values

    def condition(self, branch: Instr) -> list[Operand]:
        test = branch.args[0]
        if isinstance(test, Instr) and self.at.body.is_late_test(test):
            for c in range(self.code.count):
                if (test, c) not in self.values.vectors:
                    self.values.vectors[test, c] = self.at.ops.compute(test, c)
        return [self.code.freeze(self.values.chunk(branch.args[0], c)) for c in range(self.code.count)]

    def of(self, branch: Instr) -> tuple[Operand, Operand]:
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
