"""Whether to stop: every loop asks now and then.

A loop that counts to a bound asks once in a block of rounds and pays nothing in between: its test compares with the end
of the block instead of with the bound, and the rest is done where that test fails. A loop of few rounds does not ask;
any other one asks in each round, and so do loops under masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.ir import I1, I32, I64, PTR, Block, Const, Type, quoted

from .counts import MOST_STEP, Count, count_of, few_rounds
from .frame import STOP, STOP_AT
from .operands import Operand, constant
from .support import KEEPS
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

ROUNDS = 1024  # of a counting loop, between two looks
SHORT_BODY = 16  # instructions of a loop in which asking each time would be felt
FIRST = 1 << 14  # a counter that starts anywhere from 0 on is looked at when it gets here
FIRST_BESIDE_BARRIERS = 1 << 20  # the same in a kernel with barriers; beyond it, it is looked at in each round


class Polls:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.shapes, self.plan = (
            at,
            at.code,
            at.values,
            at.graph,
            at.shapes,
            at.plan,
        )
        self.polled: set[Block] = set()  # headers of loops that ask
        self.counts: dict[Block, Count] = {}  # of those, the ones that count, by header
        for loop in self.graph.loops:
            count = count_of(loop, self.shapes)
            rounds = count.most_rounds(self.plan.bounds.ranges) if count is not None else None
            if (rounds is not None and rounds <= ROUNDS) or few_rounds(loop, self.plan.bounds.ranges):
                continue
            self.polled.add(loop.header)
            if count is None or self.plan.sanitized or self.at.regions.cost(loop.blocks) > SHORT_BODY:
                continue
            if count.fits(loop.latch in self.shapes.divergence.branches):
                self.counts[loop.header] = count

    def poll(self, block: Block) -> None:
        if block not in self.polled:
            return
        if self.values.mask is not None or block not in self.counts:
            self.look()
            return
        count = self.counts[block]
        if count.pred == "ne":
            self.set_limit(count, self.exact_limit(count, self.values.scalar(count.phi)))
        elif self.rises_from_zero(count):  # the same wherever it starts: small loops are entered often
            first = constant(type_of(count), FIRST_BESIDE_BARRIERS if self.plan.coroutine else FIRST)
            self.set_limit(count, self.code.intrinsic(f"{count.pred[0]}min", self.last_value(count), first))
        else:
            self.set_limit(count, self.no_round(count))
        again = quoted(self.again_label(block))
        self.code.jump(again)
        self.code.place(again)
        self.values.enter(block)

    def look(self) -> Operand:
        """Read the word that is not 0 where something is to be looked at, such as a signal, or the end of the time.
        The answer is where it stands."""
        # A coroutine does not keep it in its frame.
        stop = self.code.load(PTR, STOP_AT, kind="volatile") if self.plan.coroutine else STOP
        flag = self.code.load(I32, stop, kind="volatile")
        some = self.code.icmp("ne", flag, 0)
        attend, go_on = self.code.new_label("attend"), self.code.new_label("poll")
        self.code.cond_br(some, attend, go_on, likely=False)
        self.code.place(attend)
        leave = self.code.call("mc.attend", I1, stop, how=KEEPS, kinds=("nest ",))
        self.code.cond_br(leave, "leave" if self.plan.is_cut else "exit", go_on)
        self.code.place(go_on)
        return stop

    # -- where blocks of rounds begin and end --------------------------------------------------------
    def again_label(self, header: Block) -> str:
        return f"{self.at.loop_copies.prefix(header)}.again.{header.name}"

    def full_target(self, source: Block, target: Block) -> str:
        """Label in F for an edge; a round that follows another skips what is done where a loop is entered."""
        count = self.counts.get(target)
        if count is not None and source is count.loop.latch:
            return quoted(self.again_label(target))
        return self.at.loop_copies.entry(source, target) or quoted(self.at.flow.full_label(target))

    def count_at(self, latch: Block) -> Count | None:
        loop = self.graph.loop_of[latch]
        count = self.counts.get(loop.header) if loop is not None else None
        return count if count is not None and count.loop.latch is latch else None

    def uniform_branch(self, block: Block, cond: Operand, labels: list[str]) -> None:
        """A branch of F that all lanes take alike."""
        count = self.count_at(block)
        if count is None:
            self.code.cond_br(cond, labels[0], labels[1])
            return
        onward = 0 if count.is_straight else 1
        value = self.values.scalar(count.tested)
        near = self.code.icmp(count.pred, value, self.end_of_rounds(count))
        far, again = self.code.new_label("far"), self.code.new_label("again")
        self.code.cond_br(near, labels[onward], far, likely=True)
        self.code.place(far)
        real = [again, labels[1]] if onward == 0 else [labels[0], again]
        self.code.cond_br(cond, real[0], real[1])
        self.code.place(again)
        self.begin_rounds(count, value)
        self.code.jump(labels[onward])

    def agreed_branch(self, block: Block, all_true: Operand, onward: str, disagree: str) -> None:
        """The first half of a branch of F whose lanes may disagree."""
        count = self.count_at(block)
        if count is None:
            self.code.cond_br(all_true, onward, disagree)
            return
        value = self.values.scalar(count.tested)
        least = self.code.add(value, self.lowest_offset(count))
        near = self.code.icmp(count.pred, least, self.end_of_rounds(count))
        far, again = self.code.new_label("far"), self.code.new_label("again")
        self.code.cond_br(near, onward, far, likely=True)
        self.code.place(far)
        self.code.cond_br(all_true, again, disagree)
        self.code.place(again)
        self.begin_rounds(count, value)
        self.code.jump(onward)

    def enter_full(self, block: Block) -> None:
        """From P into the middle of a round in F: its test shall fail, so that the block of rounds begins anew."""
        loop = self.graph.loop_of[block]
        count = self.counts.get(loop.header) if loop is not None else None
        if count is None:
            return
        if count.pred == "ne":
            value = self.values.scalar(count.phi)
            if count.tested is not count.phi:
                value = self.code.add(value, self.values.scalar(count.step))
            self.set_limit(count, value)
        else:
            self.set_limit(count, self.no_round(count))

    # -- the end of a block of rounds ----------------------------------------------------------------
    def end_of_rounds(self, count: Count) -> Operand:
        return self.code.load_slot((count.loop.header, "limit"), type_of(count))

    def lowest_offset(self, count: Count) -> int:
        """The first lane's distance from the counter's base."""
        return min(self.shapes.get(count.phi).offsets or (0,))

    def set_limit(self, count: Count, limit: Operand) -> None:
        self.code.keep((count.loop.header, "limit"), limit)

    def rises_from_zero(self, count: Count) -> bool:
        """Whether it starts at 0 or more and comes nearer to its bound in each round."""
        if count.pred[1] != "l" or not count.rises:
            return False
        start = self.plan.bounds.ranges.of(count.start)
        return count.pred[0] == "u" or (start is not None and start[1] < 1 << (count.phi.type.bits - 1))

    def no_round(self, count: Count) -> Operand:
        """A limit that no counter passes, unless it would pass any."""
        bits = count.phi.type.bits
        lowest, highest = (0, -1) if count.pred[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return constant(type_of(count), highest if count.descends else lowest)

    def last_value(self, count: Count) -> Operand:
        """The bound; where lanes are a line, what bounds the first so that all are below."""
        offsets = self.shapes.get(count.phi).offsets or (0,)
        span, bound = max(offsets) - min(offsets), self.values.scalar(count.bound)
        return self.code.intrinsic(f"{count.pred[0]}sub.sat", bound, constant(bound.type, span)) if span else bound

    def begin_rounds(self, count: Count, value: Operand) -> None:
        """Look, and go on: *value* is the counter, which has passed its test."""
        stop = self.look()
        if self.plan.coroutine and count.pred != "ne" and self.rises_from_zero(count):
            self.set_limit(count, self.no_round(count))  # arithmetic would take registers that every barrier saves
            return
        # Always 0, which LLVM cannot know: nothing of what follows is computed ahead, where it would cost.
        zero_at = self.code.gep(stop, 4)
        zero = self.code.load(I32, zero_at, kind="volatile")
        if count.phi.type.bits == 64:
            zero = self.code.zext(zero, I64)
        value = self.code.add(value, zero)
        limit = self.exact_limit(count, value) if count.pred == "ne" else self.ordered_limit(count, value, zero)
        self.set_limit(count, limit)

    def ordered_limit(self, count: Count, value: Operand, zero: Operand) -> Operand:
        """The bound or less: where the counter passes the test it would pass that with the bound, too. And nowhere near
        the end of the numbers: a counter that steps over it passes every test again, for ever."""
        last, low = self.last_value(count), self.lowest_offset(count)
        if low:
            value = self.code.add(value, low)
        if isinstance(count.step, Const):
            rounds = constant(value.type, abs(count.step.value or 0) * ROUNDS)
        else:  # a step that is large, or negative, or 0: look in each round
            step = self.code.add(self.values.scalar(count.step), zero)
            small = self.code.icmp("ult", step, MOST_STEP)
            some = self.code.mul(step, ROUNDS)
            rounds = self.code.select(small, some, 0)
        away = self.code.sub(value, last) if count.descends else self.code.sub(last, value)
        part = self.code.intrinsic("umin", away, rounds)
        limit = self.code.binary("sub" if count.descends else "add", value, part)
        sign, down = count.pred[0], count.descends
        end = constant(value.type, count.safe_end)
        limit = self.code.intrinsic(f"{sign}{'max' if down else 'min'}", limit, end)
        is_beyond = self.code.icmp(f"{sign}{'lt' if down else 'gt'}", value, end)
        return self.code.select(is_beyond, self.no_round(count), limit)

    def exact_limit(self, count: Count, value: Operand) -> Operand:
        """The bound where it is a few whole steps away, else a value that the counter meets before it."""
        assert isinstance(count.step, Const)
        step, bound = count.step.value or 0, self.values.scalar(count.bound)
        away = self.code.sub(value, bound) if step < 0 else self.code.sub(bound, value)
        near = self.code.icmp("ule", away, abs(step) * ROUNDS)
        if abs(step) > 1:
            part = self.code.urem(away, abs(step))
            whole = self.code.icmp("eq", part, 0)
            near = self.code.and_(near, whole)
        some = self.code.add(value, step * ROUNDS)
        return self.code.select(near, bound, some)


def type_of(count: Count) -> Type:
    return scalar_type(count.phi.type)
