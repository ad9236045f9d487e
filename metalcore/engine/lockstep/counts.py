"""Loops that count to a bound, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metalcore.engine.ir import Const, Instr, Value

from .cfg import Loop

if TYPE_CHECKING:
    from .ranges import Ranges
    from .shapes import Shapes

MOST_STEP = 1 << 16  # of a counter, for the arithmetic on it to stay in range
_GROUP_SIZES = ("__mc_threads_per_threadgroup", "__mc_dispatch_threads_per_threadgroup")  # 1 to 1,024
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_INVERSE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@dataclass(frozen=True)
class Count:
    """A loop that goes on while `counter pred bound` holds, tested in its latch alone."""

    loop: Loop
    phi: Instr  # the counter as a round begins
    step: Value
    tested: Instr  # phi, or phi + step
    pred: str
    bound: Value
    is_straight: bool  # the branch goes on where its test holds

    @property
    def descends(self) -> bool:
        return isinstance(self.step, Const) and (self.step.value or 0) < 0

    @property
    def has_small_step(self) -> bool:
        """Whether each round surely adds a small positive number: a constant, or the size of a group."""
        if isinstance(self.step, Const):
            return not self.descends
        return isinstance(self.step, Instr) and self.step.callee in _GROUP_SIZES

    @property
    def rises(self) -> bool:
        """Whether a counter from 0 on gets to any number above it: the size of a grid may be 2^32 - 1, which takes 1
        off, so that it passes 0 instead."""
        is_grid = isinstance(self.step, Instr) and self.step.callee == "__mc_threads_per_grid"
        return self.has_small_step or (is_grid and self.pred[0] == "u")

    @property
    def safe_end(self) -> int:
        """A counter that is not beyond this takes one more step without passing the end of the numbers."""
        bits = self.phi.type.bits
        lowest = 0 if self.pred[0] == "u" else -(1 << (bits - 1))
        return lowest + MOST_STEP if self.descends else lowest + (1 << bits) - MOST_STEP

    @property
    def start(self) -> Value:
        return next(a for a, b in zip(self.phi.args, self.phi.targets, strict=True) if b is not self.loop.latch)

    def fits(self, is_divergent: bool) -> bool:
        """Whether an end of a block of rounds can stand for its bound; the lanes of a divergent one are a line."""
        if self.phi.type.bits not in (32, 64):
            return False
        return not is_divergent or (self.is_straight and self.pred in ("ult", "slt"))

    def most_rounds(self, ranges: Ranges) -> int | None:
        """How often it runs at most, where that is known."""
        known = self._rounds()
        first, bound = ranges.of(self.start), ranges.of(self.bound)
        if known is not None or first is None or bound is None or not isinstance(self.step, Const):
            return known
        step, tested = self.step.value or 0, 0 if self.tested is self.phi else self.step.value or 0
        if step <= 0 or max(first[1], bound[1]) + MOST_STEP >= 1 << (self.phi.type.bits - 1):
            return None
        if self.pred == "ne" and (step > 1 or bound[0] < first[1] + tested):
            return None  # it may miss its bound
        return max(0, bound[1] - first[0]) // step + 2

    def span(self, ranges: Ranges) -> tuple[int, int] | None:
        """The least and the largest number as a round begins, where it counts up from one known number to another."""
        first, bound = ranges.of(self.start), ranges.of(self.bound)
        step = self.step.value or 0 if isinstance(self.step, Const) else 0
        if first is None or bound is None or step <= 0:
            return None
        if max(first[1], bound[1]) + MOST_STEP >= 1 << (self.phi.type.bits - 1):
            return None
        last = bound[1] - (self.pred[1:] != "le")
        if self.pred == "ne":  # each number may come before the bound, which it must not miss
            away = bound[0] - first[0]
            is_met = first[0] == first[1] and bound[0] == bound[1] and away > 0 and away % step == 0
            if not is_met:
                return None
            last = bound[1] - step
        if self.tested is self.phi:
            last += step
        return first[0], max(first[1], last)

    def _rounds(self) -> int | None:
        """The same of numbers that are written down."""
        ends = [v.value if isinstance(v, Const) else None for v in (self.start, self.step, self.bound)]
        if None in ends:
            return None
        bits, unsigned = self.phi.type.bits, self.pred[0] == "u"
        first, bound = (_read(v or 0, bits, unsigned) for v in (ends[0], ends[2]))
        step = _read(ends[1] or 0, bits, False)
        away = bound - first if step > 0 else first - bound
        if away < 0 or (self.pred == "ne" and away % abs(step)):
            return None  # only around the end of the numbers
        rounds = away // abs(step) + 2
        last = first + rounds * step
        lowest = 0 if unsigned else -(1 << (bits - 1))
        return rounds if lowest <= last < lowest + (1 << bits) else None


def _read(value: int, bits: int, unsigned: bool) -> int:
    value &= (1 << bits) - 1
    return value if unsigned or value < 1 << (bits - 1) else value - (1 << bits)


def count_of(loop: Loop, shapes: Shapes) -> Count | None:
    """The loop as one that counts, or None."""
    latch = loop.latch.terminator
    exits = loop.exits()
    if loop.children or len(exits) != 1 or exits[0][0] is not loop.latch or not latch.args:
        return None
    test = latch.args[0]
    if not isinstance(test, Instr) or test.op != "icmp" or test.args[0].type.kind != "int":
        return None
    goes_on = latch.targets[0] is loop.header
    for number, side in enumerate(test.args):
        found = _counter(side, loop)
        if found is None:
            continue
        phi, step = found
        bound = test.args[1 - number]
        pred = _spelled(str(test.extra["pred"]), number == 1, not goes_on)
        assert isinstance(side, Instr)
        count = Count(loop, phi, step, side, pred, bound, goes_on)
        return count if _is_sound(count, shapes) else None
    return None


def few_rounds(loop: Loop, ranges: Ranges) -> bool:
    """Whether its counter is halved down to 0, or doubled from 1 or more: there is no longer way than its bits."""
    latch = loop.latch.terminator
    test = latch.args[0] if latch.args else None
    if not isinstance(test, Instr) or test.op != "icmp" or all(target in loop.blocks for target in latch.targets):
        return False
    for number, side in enumerate(test.args):
        found = _shifted(side, loop)
        if found is None:
            continue
        (start, after), bound = found, ranges.of(test.args[1 - number])
        pred = _spelled(str(test.extra["pred"]), number == 1, latch.targets[0] is not loop.header)
        if bound is None:
            return False
        half = 1 << (after.type.bits - 1)
        if after.op != "shl":
            is_low = after.op == "lshr" or pred[0] == "s"  # the bits that come in are 0, or it ends below 0
            return is_low and ((pred[1:] == "gt" and bound[1] < half) or (pred == "ne" and bound == (0, 0)))
        # Before a bit is lost it was the highest one, and the counter not below the bound.
        first, by = ranges.of(start), after.args[1]
        most = half if pred[0] == "u" else half // 2
        is_doubled = isinstance(by, Const) and by.value == 1
        is_below = pred[1:] in ("lt", "le") and bound[1] < most
        return is_doubled and is_below and first is not None and first[0] > 0 and first[1] < most
    return False


def _shifted(side: Value, loop: Loop) -> tuple[Value, Instr] | None:
    """Where a tested value starts, and how it is shifted in each round."""
    for phi in loop.header.phis():
        sources = dict(zip(phi.targets, phi.args, strict=True))
        after = sources.pop(loop.latch, None)
        if not isinstance(after, Instr) or after.op not in ("lshr", "ashr", "shl") or side not in (phi, after):
            continue
        by = after.args[1]
        is_shift = after.args[0] is phi and isinstance(by, Const) and 0 < (by.value or 0) < after.type.bits
        if is_shift and len(sources) == 1:
            return next(iter(sources.values())), after
    return None


def _spelled(pred: str, swapped: bool, inverse: bool) -> str:
    """A predicate with its sides swapped, or of the opposite."""
    if pred in ("eq", "ne"):
        return pred if not inverse else "ne" if pred == "eq" else "eq"
    sign, order = pred[0], pred[1:]
    order = _SWAPPED[order] if swapped else order
    return sign + (_INVERSE[order] if inverse else order)


def _counter(side: Value, loop: Loop) -> tuple[Instr, Value] | None:
    """The phi that a tested value is or comes from, and what is added to it in each round."""
    if not isinstance(side, Instr) or side.block not in loop.blocks:
        return None
    phi = side if side.op == "phi" else side.args[0] if side.op == "add" else None
    if not isinstance(phi, Instr) or phi.op != "phi" or phi.block is not loop.header or len(phi.args) != 2:
        return None
    after = next((a for a, b in zip(phi.args, phi.targets, strict=True) if b is loop.latch), None)
    if not isinstance(after, Instr) or after.op != "add" or after.args[0] is not phi or side not in (phi, after):
        return None
    return phi, after.args[1]


def _is_sound(count: Count, shapes: Shapes) -> bool:
    header = count.loop.header
    for value in (count.step, count.bound):
        if isinstance(value, Instr) and value.block in count.loop.blocks:
            return False
        if not isinstance(value, Const) and not shapes.at(value, header).uniform:
            return False
    if shapes.at(count.phi, header).varying:
        return False
    if isinstance(count.step, Const):
        step = _read(count.step.value or 0, count.phi.type.bits, False)
        if not 0 < abs(step) < MOST_STEP:
            return False
    elif count.pred not in ("ult", "slt"):  # of `!=`, a step that may reach the bound never; of `<=`, one that may be 0
        return False
    return count.pred == "ne" or (count.pred != "eq" and count.pred[1] == ("g" if count.descends else "l"))
