"""mc_run: the loops over the threadgroups of a row and over the simdgroups of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.ir import I1, I32, PTR, VOID, Function, Instr, array

from .builder import Builder
from .frame import GROUP, LAUNCH, SIZE, WORKER, of_launch, of_sanitizer, of_worker, parameters
from .initial import Initial
from .operands import NULL, Operand, constant
from .support import KEEPS

# What a thread may ask for and still not notice in which threadgroup it is.
_GROUP_FREE = {
    f"__mc_{name}"
    for name in (
        *("thread_position_in_grid", "threads_per_grid", "threadgroups_per_grid"),
        *("thread_index_in_simdgroup", "threads_per_simdgroup", "thread_index_in_quadgroup"),
        *("threads_per_threadgroup", "dispatch_threads_per_threadgroup"),
    )
}
# Threads that are run in one go where threadgroups make no difference, with and without loops; then comes a look at
# whether to stop.
SPAN = {True: 1 << 13, False: 1 << 17}
# A kernel with so many instructions keeps a processor from looking ahead to the loads of the next simdgroups.
LONG_BODY = 16
_ZERO, _ONE = constant(I32, 0), constant(I32, 1)


def is_short(function: Function) -> bool:
    """Whether little is done with what is loaded: such a kernel waits for memory alone."""
    return len(function.blocks) == 1 and len(function.blocks[0].instrs) < LONG_BODY


def knows_its_group(instr: Instr) -> bool:
    """Whether an instruction gives another answer when neighbouring threadgroups are run as one."""
    names = ("threadgroup", "simdgroup_index", "quadgroup_index")
    return (
        instr.op == "call"
        and instr.callee.startswith("__mc_")
        and instr.callee not in _GROUP_FREE
        and any(name in instr.callee for name in names)
    )


def first_position(
    code: Builder, layout: str, simdgroup: Operand, names: Sequence[Operand] | None = None
) -> tuple[Operand, ...]:
    """Position in the group of a simdgroup's first thread, where rows are whole simdgroups; under names, if given."""
    x, y, z = (code.as_(name) for name in names) if names else (code, code, code)
    if layout != "rows":
        return x.add(_ZERO, 0), y.add(_ZERO, 0), z.add(_ZERO, 0)
    first = code.shl(simdgroup, 5)
    row = code.udiv(first, SIZE[0])
    column = x.sub(first, code.mul(row, SIZE[0]))
    plane = z.udiv(row, SIZE[1])
    return column, y.sub(row, code.mul(plane, SIZE[1])), plane


@dataclass(frozen=True)
class Driver:
    """How a kernel's simdgroups are run.

    Sanitize mode is told of each threadgroup, and chooses the order of its simdgroups.
    Where *span_threads* is given, whole threadgroups side by side are one long loop over simdgroups.
    """

    coroutine: bool
    is_cut: bool
    tail: bool
    layout: str
    span_threads: int
    sanitized: bool
    initial: Initial  # sets the threadgroup variables that have an initialiser

    def write(self) -> str:
        first, end = Operand("%gx0", I32), Operand("%gx1", I32)
        code = Builder()
        code.place("entry")
        group = _Group(self, code, first, end)
        stop = code.load(PTR, code.gep(LAUNCH, of_launch("stop")))
        for axis in (1, 2):
            code.store(GROUP[axis], code.gep(WORKER, of_worker("group_pos") + 4 * axis))
        code.cond_br(code.icmp("ult", first, end), "group", "return")
        code.place("group")
        x = code.phi((first, "entry"))
        code.store(x, code.gep(WORKER, of_worker("group_pos")))
        span = group.run(x)
        go_on = code.icmp("eq", code.load(I32, stop, kind="volatile"), 0)
        code.cond_br(go_on, "group.next", "attend", likely=True)
        code.place("attend")
        leave = code.call("mc.attend", I1, stop, how=KEEPS, kinds=("nest ",))
        code.cond_br(leave, "return", "group.next")
        code.place("group.next")
        following = code.add(x, span)
        code.edge(x, following, "group.next")
        code.cond_br(code.icmp("ult", following, end), "group", "return")
        code.place("return")
        code.ret()
        given = parameters(LAUNCH, WORKER, first, end, *GROUP[1:], *SIZE)
        return "\n".join([f"define void @mc_run({given}) #1 {{", *code.text(), "}"])


class _Group:
    """The code of one threadgroup."""

    def __init__(self, driver: Driver, code: Builder, first: Operand, end: Operand) -> None:
        self.driver, self.code, self.end = driver, code, end
        if driver.span_threads:
            fits = code.udiv(constant(I32, driver.span_threads), SIZE[0])
            self.fitting = code.intrinsic("umax", fits, _ONE)
            self.is_whole = code.icmp("eq", code.and_(SIZE[0], 31), 0)
        elif driver.coroutine:
            self.handles = code.alloca(array(SIMDGROUPS + 1, PTR))
            self.frames = code.gep(WORKER, of_worker("frame_cur"))
        area = code.mul(SIZE[0], SIZE[1])
        self.threads = code.mul(area, SIZE[2])
        self.full = code.lshr(self.threads, 5)
        self.rest = code.and_(self.threads, 31)
        self.all = code.lshr(code.add(self.threads, 31), 5)
        self.alone = code.icmp("ult", self.all, 2)
        self.tail_bits = code.sub(code.shl(_ONE, self.rest), 1)

    def run(self, x: Operand) -> Operand:
        """The code, and how many threadgroups it runs."""
        code, driver = self.code, self.driver
        self.args = (LAUNCH, WORKER, x, *GROUP[1:], *SIZE)
        if driver.span_threads:
            most = code.intrinsic("umin", code.sub(self.end, x), self.fitting)
            span = code.select(self.is_whole, most, 1)
            full = code.mul(self.full, span)
        else:
            span = code.add(_ZERO, 1)
            full = code.add(self.full, 0)
        if driver.sanitized:
            sanitizer = code.load(PTR, code.gep(LAUNCH, of_launch("sanitizer")))
            begin = code.load(PTR, code.gep(sanitizer, of_sanitizer("begin_group")))
            code.call_pointer(begin, VOID, sanitizer, WORKER, self.threads)
            self.order = code.gep(sanitizer, of_sanitizer("order"))
            driver.initial.write(code, sanitizer)
        else:
            driver.initial.write(code, None)
        if driver.is_cut:
            code.call("simdgroup.full", VOID, *self.args, self.all)
        elif driver.coroutine:
            self._start_coroutines()
            self._resume_coroutines()
            code.place("group.done")
            code.store(self.saved, self.frames)
        elif driver.sanitized:
            self._in_order()
            code.place("group.done")
        else:
            self._one_by_one(full)
            code.place("group.done")
        return span

    def _call(self, name: str, simdgroup: Operand, bits: Operand, position: tuple[Operand, ...]) -> Operand:
        to = PTR if self.driver.coroutine else VOID
        return self.code.call(f"simdgroup.{name}", to, *self.args, simdgroup, bits, self.alone, *position)

    def _ordered(self, place: Operand) -> Operand:
        """Which simdgroup's turn it is: sanitize mode says."""
        if not self.driver.sanitized:
            return place
        return self.code.load(I32, self.code.gep(self.order, place, I32))

    def _again(self, counter: Operand, label: str, start: str, done: str) -> None:
        """The end of a loop over simdgroups."""
        following = self.code.add(counter, 1)
        self.code.edge(counter, following, label)
        self.code.cond_br(self.code.icmp("ult", following, self.all), start, done)

    def _one_by_one(self, full: Operand) -> None:
        code = self.code
        code.jump("start")
        code.place("start")
        simdgroup = code.phi((_ZERO, "group"))
        is_full = code.icmp("ult", simdgroup, full)
        position = first_position(code, self.driver.layout, simdgroup)
        code.cond_br(is_full, "start.full", "tail")
        code.place("start.full")
        self._call("full", simdgroup, constant(I32, -1), position)
        code.edge(simdgroup, code.add(simdgroup, 1), "start.full")
        code.jump("start")
        code.place("tail")
        code.cond_br(code.icmp("ne", self.rest, 0), "start.part", "group.done")
        code.place("start.part")
        if self.driver.tail:
            self._call("part", self.full, self.tail_bits, position)
        code.jump("group.done")

    def _in_order(self) -> None:
        code = self.code
        code.jump("start")
        code.place("start")
        place = code.phi((_ZERO, "group"))
        simdgroup = self._ordered(place)
        is_full = code.icmp("ult", simdgroup, self.full)
        position = first_position(code, self.driver.layout, simdgroup)
        code.cond_br(is_full, "start.full", "start.part")
        code.place("start.full")
        self._call("full", simdgroup, constant(I32, -1), position)
        code.jump("start.done")
        code.place("start.part")
        if self.driver.tail:
            self._call("part", simdgroup, self.tail_bits, position)
        code.jump("start.done")
        code.place("start.done")
        self._again(place, "start.done", "start", "group.done")

    def _start_coroutines(self) -> None:
        code = self.code
        self.saved = code.load(PTR, self.frames)
        code.jump("start")
        code.place("start")
        place = code.phi((_ZERO, "group"))
        simdgroup = self._ordered(place)
        is_full = code.icmp("ult", simdgroup, self.full)
        at = code.gep(self.handles, simdgroup, PTR)
        position = first_position(code, self.driver.layout, simdgroup)
        code.cond_br(is_full, "start.full", "start.part")
        code.place("start.full")
        full = self._call("full", simdgroup, constant(I32, -1), position)
        code.jump("start.held")
        code.place("start.part")
        part = self._call("part", simdgroup, self.tail_bits, position) if self.driver.tail else code.freeze(NULL)
        code.jump("start.held")
        code.place("start.held")
        held = code.phi((full, "start.full"), (part, "start.part"))
        code.store(held, at)
        code.cond_br(code.icmp("eq", held, NULL), "group.done", "start.done")
        code.place("start.done")
        self._again(place, "start.done", "start", "round")

    def _resume_coroutines(self) -> None:
        """In turn, until all are done."""
        code = self.code
        code.place("round")
        code.jump("step")
        code.place("step")
        place = code.phi((_ZERO, "round"))
        handle = code.load(PTR, code.gep(self.handles, self._ordered(place), PTR))
        resume = code.load(PTR, handle)
        code.cond_br(code.icmp("eq", resume, NULL), "step.done", "step.go")
        code.place("step.go")
        code.call_pointer(resume, VOID, handle, how="fastcc ")
        code.jump("step.done")
        code.place("step.done")
        self._again(place, "step.done", "step", "look")
        code.place("look")
        looked = code.phi((_ZERO, "step.done"))
        resume = code.load(PTR, code.load(PTR, code.gep(self.handles, looked, PTR)))
        code.cond_br(code.icmp("eq", resume, NULL), "look.next", "round")
        code.place("look.next")
        self._again(looked, "look.next", "look", "group.done")
