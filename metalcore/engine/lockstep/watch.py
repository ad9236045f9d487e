"""Hooks of sanitize mode that concern memory and lanes: each becomes a call of the runtime's records.

Lockstep only says what 32 lanes do at once: an address, a step from lane to lane, a size. What that means is decided in
runtime/native/track.c and rounds.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from metalcore.engine.abi import ANY_ROOT, ATOMIC, GROUP_ROOT, LOAD, STORE
from metalcore.engine.ir import I1, I32, I64, PTR, VOID, Block, Const, Instr, Type, Value
from metalcore.engine.model import LANES
from metalcore.errors import UnsupportedFeature

from .addresses import Address
from .builder import Builder
from .frame import FIRST_THREAD, LAUNCH, SIMDGROUP, WORKER, of_launch, of_sanitizer, parameters
from .lanes import Names
from .loop_reads import MOST_ROUNDS, LoopRead, loop_reads
from .operands import FALSE, NULL, Operand, constant
from .roots import Root
from .support import COLD, KEEPS, function

if TYPE_CHECKING:
    from .emitters import Emitters

_KINDS = {"read": LOAD, "copy": LOAD, "write": STORE, "touch_atomically": ATOMIC}
_KINDS |= {"store_atomically": ATOMIC, "load_atomically": ATOMIC}
_MOST_RUNS = 4
# In the number that tells hooks what is accessed, as in runtime/native/sanitize.h.
_NEEDS_NO_VALUE, _ASKS, _LOSES, _ONLY_READS = 1 << 20, 1 << 21, 1 << 22, 1 << 23


@dataclass(frozen=True)
class Run:
    """Neighbouring lanes whose addresses are a fixed step apart."""

    first: int
    count: int
    base: Operand
    offset: int
    step: int


def is_watched(roots: frozenset[Root]) -> bool:
    return not roots or any(r.kind not in ("private", "table") for r in roots)


class Watch:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan
        self.loop_reads = loop_reads(at.graph, at.shapes) if at.plan.sanitized else {}
        self.loop_entries: dict[Block, list[Instr]] = {}
        self.is_recorded = False  # code is written that runs where the reads of all rounds are (loop_copies.py)
        for instr, found in self.loop_reads.items():
            self.loop_entries.setdefault(found.count.loop.header, []).append(instr)

    def sanitizer(self) -> Operand:
        if "sanitizer" not in self.code.entry_values:
            at = self.code.entry.gep(LAUNCH, of_launch("sanitizer"))
            self.code.entry_values["sanitizer"] = self.code.entry.load(PTR, at, invariant=True)
        return self.code.entry_values["sanitizer"]

    def call_hook(self, name: str, *given: Operand | int, to: Type = VOID) -> Operand:
        """A function of the sanitizer; plain numbers are 32 bits wide."""
        arguments = (x if isinstance(x, Operand) else constant(I32, x) for x in given)
        return self.code.call_pointer(self._hook(name), to, self.sanitizer(), *arguments)

    def _hook(self, name: str) -> Operand:
        at = self.code.gep(self.sanitizer(), of_sanitizer(name))
        return self.code.load(PTR, at, invariant=True)

    # -- memory ------------------------------------------------------------------------------------
    def watch_access(self, instr: Instr, name: str) -> None:
        """__mc_read(ptr, size), __mc_write(ptr, size, value), and the two atomic ones: checks/accesses.py."""
        size = _number(instr, 1)
        where = self.at.addresses.of(instr.args[0], size)
        if not is_watched(where.roots):
            return
        kind = _KINDS[name]
        self.values.mask_bits()  # once for all accesses of a block, in front of the branch
        state = self._begin_watch(where.roots)
        meta = self._meta(instr, where, kind)
        flags = {"store_atomically": _NEEDS_NO_VALUE, "load_atomically": _ONLY_READS, "copy": _NEEDS_NO_VALUE}
        meta |= flags.get(name, 0)
        runs = self._runs(where)
        value = instr.args[2] if kind == STORE else None
        if runs is None or (kind != LOAD and any(run.step < size for run in runs)):
            self._watch_lanes_apart(where, value, meta, runs)
        else:
            guards = self.at.inside.pattern_guards(where)
            apart, done = self.code.new_label("apart"), self.code.new_label("together")
            for guard in guards:  # an index that wrapped around: the lanes are no row
                row = self.code.new_label("row")
                self.code.cond_br(guard, row, apart, likely=True)
                self.code.place(row)
            saved = self.at.lanes.snapshot()
            for run in runs:
                self._watch_run(instr, run, where.size, meta)
            if guards:
                self.code.jump(done)
                self.at.lanes.restore(saved)
                self.code.place(apart)
                self._watch_each_lane(where, value, meta)
                self.code.jump(done)
                self.at.lanes.restore(saved)
                self.code.place(done)
        self._end_watch(state)

    def _watch_lanes_apart(self, where: Address, value: Value | None, meta: int, runs: list[Run] | None) -> None:
        """Lanes that may go to one place at once. Where all would go to the same, mostly one of them is there alone."""
        if runs is None or len(runs) > 1 or runs[0].step or self.values.mask is None:
            self._watch_each_lane(where, value, meta)
            return
        one, several, done = (self.code.new_label(name) for name in ("one", "several", "told"))
        lanes = self.values.mask_bits()
        is_one = self.code.icmp("eq", self.code.and_(lanes, self.code.sub(lanes, 1)), 0)
        self.code.cond_br(is_one, one, several, likely=True)
        saved = self.at.lanes.snapshot()
        self.code.place(one)
        self.call_hook("row", *self._run_arguments(runs[0], where.size, meta), to=I32)
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(several)
        self._watch_each_lane(where, value, meta)
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(done)

    def _watch_each_lane(self, where: Address, value: Value | None, meta: int) -> None:
        values = NULL
        if value is not None:
            values = self.at.slow.scratch("values", 8)
            self.at.slow.spill_chunks(values, 8, self.values.chunks(value))
        addresses = self.at.slow.spill_addresses(where)
        lanes = self.values.mask_bits()
        self.call_hook("lanes", addresses, values, where.size, meta, lanes, FIRST_THREAD)

    def _watch_run(self, instr: Instr, run: Run, size: int, meta: int) -> Operand:
        """Lanes that read what has no value."""
        found = self.loop_reads.get(instr)
        if found is not None and self.is_recorded:
            return constant(I32, 0)
        if found is not None and self.values.mask is None and run.count == LANES:
            return self._watch_loop(instr, found, run, size, meta)
        if found is not None:
            self.code.keep((instr, "all rounds"), FALSE)
        hook = {LOAD: "read_row", STORE: "write_row"}.get(meta >> 16 & 15)
        is_whole = self.values.mask is None and run.count == LANES and run.step == size
        if hook is not None and is_whole and meta >> 24 != ANY_ROOT:
            number = self.code.ptrtoint(self.at.addresses.pointer_at(run.base, run.offset))
            return self.call_hook(hook, number, size, meta, FIRST_THREAD, to=I32)
        return self.call_hook("row", *self._run_arguments(run, size, meta), to=I32)

    def _watch_loop(self, instr: Instr, found: LoopRead, run: Run, size: int, meta: int) -> Operand:
        """In the first round of a loop the reads of all rounds are recorded, if nothing is wrong with any of them."""
        is_known = self.code.load_slot((instr, "all rounds"), I1)
        ask, done, before = self.code.new_label("ask"), self.code.new_label("recorded"), self.code.new_label("round")
        self.code.jump(before)
        self.code.place(before)
        self.code.cond_br(is_known, done, ask)
        self.code.place(ask)
        saved = self.at.lanes.snapshot()
        is_first = self.code.icmp("eq", self.values.scalar(found.count.phi), found.start)
        rounds = self.code.select(is_first, self._rounds(found), 1)
        number = self.code.ptrtoint(self.at.addresses.pointer_at(run.base, run.offset))
        step, ahead = constant(I64, run.step), constant(I64, found.ahead)
        answer = self.call_hook("loop", number, step, size, meta, FIRST_THREAD, ahead, rounds, to=I64)
        self.code.keep((instr, "all rounds"), self.code.icmp("ugt", answer, (1 << 32) - 1))
        unset = self.code.cast("trunc", answer, I32)
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(done)
        return self.code.phi((constant(I32, 0), before), (unset, ask))

    def enter(self, source: Block, target: Block) -> None:
        """On the way into a loop: none of its rounds is recorded yet."""
        for instr in self.loop_entries.get(target, ()):
            if source is not self.loop_reads[instr].count.loop.latch:
                self.code.keep((instr, "all rounds"), FALSE)

    def _rounds(self, found: LoopRead) -> Operand:
        """How often a loop runs from its first round on; 1 where that is not known, or very often."""
        known = found.known_rounds()
        if known is not None:
            return constant(I32, known if known <= MOST_ROUNDS else 1)
        rounds = self.values.scalar(found.count.bound)
        if found.start:
            rounds = self.code.sub(rounds, found.start)
        if found.step > 1:
            rounds = self.code.udiv(self.code.add(rounds, found.step - 1), found.step)
        rounds = self.code.select(self.code.icmp("ule", rounds, MOST_ROUNDS), rounds, 1)
        return self.code.cast("trunc", rounds, I32) if found.count.phi.type.bits > 32 else rounds

    def watch_value(self, instr: Instr) -> None:
        """__mc_has_no_value(ptr, size): a read of threadgroup memory, and which lanes read what nobody wrote."""
        where = self.at.addresses.of(instr.args[0], _number(instr, 1))
        meta = self._meta(instr, where, LOAD) | _ASKS
        runs = self._runs(where) if not self.at.inside.pattern_guards(where) else None
        if runs is None:
            addresses, lanes = self.at.slow.spill_addresses(where), self.values.mask_bits()
            unset = self.call_hook("lanes", addresses, NULL, where.size, meta, lanes, FIRST_THREAD, to=I32)
        else:
            unset = constant(I32, 0)
            for n, run in enumerate(runs):
                part = self._watch_run(instr, run, where.size, meta)
                if run.first:
                    part = self.code.shl(part, run.first)
                unset = self.code.or_(unset, part) if n else part
        self.values.define_scalar(instr, unset)

    def watch_loss(self, instr: Instr) -> None:
        """__mc_lose_value(ptr, size, i1): lanes that have stored what has no value."""
        size = _number(instr, 1)
        lanes = self.lanes_where(instr.args[2])
        if lanes is None:
            return
        some, done = self.code.new_label("unset"), self.code.new_label("set")
        any_lane = self.code.icmp("ne", lanes, 0)
        self.code.cond_br(any_lane, some, done, likely=False)
        saved = self.at.lanes.snapshot()
        self.code.place(some)
        where = self.at.addresses.of(instr.args[0], size)
        addresses, meta = self.at.slow.spill_addresses(where), self._meta(instr, where, STORE) | _LOSES
        self.call_hook("lanes", addresses, NULL, where.size, meta, lanes, FIRST_THREAD)
        self._end_watch((done, saved))

    def lanes_where(self, condition: Value) -> Operand | None:
        """The active lanes for which a condition holds, as a number; None where it surely holds for none."""
        if isinstance(condition, Const) and not condition.value:
            return None
        if condition.type.bits == 32:  # a bit for each lane: flags.py
            return self._own_bits(condition)
        if isinstance(condition, Const) or self.values.shape(condition).uniform:
            return self.code.select(self.values.scalar(condition), self.values.mask_bits(), 0)
        return self.code.bits(self._active(self.values.chunks(condition)))

    def _own_bits(self, flags: Value) -> Operand:
        if isinstance(flags, Const) or self.values.shape(flags).uniform:
            own, mask = self.values.scalar(flags), self.values.mask
            return own if mask is None else self.code.and_(own, self.code.bits(mask))
        bits = [(1 << lane) - (1 << 32 if lane == LANES - 1 else 0) for lane in range(LANES)]
        wanted = []
        for c, chunk in enumerate(self.values.chunks(flags)):
            wanted.append(self.code.icmp("ne", self.code.and_(chunk, self.code.lane_constants(I32, bits, c)), 0))
        return self.code.bits(self._active(wanted))

    def _active(self, lanes: list[Operand]) -> list[Operand]:
        if self.values.mask is None:
            return lanes
        return [self.code.and_(lane, mask) for lane, mask in zip(lanes, self.values.mask, strict=True)]

    def watch_condition(self, instr: Instr, is_unset: bool) -> None:
        """__mc_report_if(i1, place) and __mc_report_unset(i1, place): tell the runtime of the lanes."""
        place = _number(instr, 1)
        tell, go_on = self.code.new_label("report"), self.code.new_label("silent")
        none = self._holds_nowhere(instr.args[0])
        saved = self.at.lanes.snapshot()
        if none is not None:
            look = self.code.new_label("look")
            self.code.cond_br(none, go_on, look, likely=True)
            self.code.place(look)
        lanes = self.lanes_where(instr.args[0])
        if lanes is None:
            return
        any_lane = self.code.icmp("ne", lanes, 0)
        self.code.cond_br(any_lane, tell, go_on, likely=False)
        self.code.place(tell)
        name = "mc.unset" if is_unset else "mc.report"
        self.code.helpers[name] = _telling(name)
        self.code.call(name, VOID, LAUNCH, WORKER, constant(I32, place), lanes, FIRST_THREAD, how=KEEPS)
        self.code.jump(go_on)
        if none is not None:
            self.at.lanes.restore(saved)
        self.code.place(go_on)

    def tell(self, instr: Instr) -> None:
        """__mc_tell(place, value): what the active lanes have to say."""
        rows = self.at.slow.scratch("said", 8)
        self.at.slow.spill_chunks(rows, 8, self.values.chunks(instr.args[1]))
        place = constant(I32, _number(instr, 0))
        tell = self.code.load(PTR, self.code.gep(LAUNCH, of_launch("tell")))
        first = self.at.turns.own(FIRST_THREAD)
        self.code.call_pointer(tell, VOID, LAUNCH, WORKER, place, self.values.mask_bits(), first, rows)

    def _holds_nowhere(self, condition: Value) -> Operand | None:
        """One test of scalars that shows that a condition holds for no lane: two indices that are the same line."""
        if not isinstance(condition, Instr) or not self.values.shape(condition).varying:
            return None
        if condition.op == "and":
            parts = [part for part in map(self._holds_nowhere, condition.args) if part is not None]
            return self.code.or_(*parts) if len(parts) == 2 else parts[0] if parts else None
        if condition.op != "icmp" or condition.extra["pred"] != "ne" or condition.args[0].type.kind != "int":
            return None
        left, right = (self.values.shape(arg) for arg in condition.args)
        if left.varying or left.offsets != right.offsets:
            return None
        none = self.code.icmp("eq", *(self.values.scalar(arg) for arg in condition.args))
        for arg in condition.args:
            for guard in self.at.guards.wrap_guards(arg):
                none = self.code.and_(none, guard)
        return none

    def _begin_watch(self, roots: frozenset[Root]) -> tuple[str, Names]:
        """Memory that this launch does not write has no records: its hooks cost a test."""
        root = _root_number(roots)
        key = ("watched", root)
        if key not in self.code.entry_values:
            at = self.sanitizer()
            at = self.code.entry.gep(at, 8 * root)
            shadow = self.code.entry.load(PTR, at, invariant=True)
            self.code.entry_values[key] = self.code.entry.icmp("ne", shadow, NULL)
        watch, done = self.code.new_label("watch"), self.code.new_label("watched")
        self.code.cond_br(self.code.entry_values[key], watch, done)
        saved = self.at.lanes.snapshot()
        self.code.place(watch)
        return done, saved

    def _end_watch(self, state: tuple[str, Names]) -> None:
        done, saved = state
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(done)

    def _meta(self, instr: Instr, where: Address, kind: int) -> int:
        site = min(self.plan.site(instr, where, kind), 0xFFFF)
        return site | kind << 16 | _root_number(where.roots) << 24

    def _runs(self, where: Address) -> list[Run] | None:
        """The access as a few runs of lanes, or None where every lane goes its own way."""
        if where.offsets is None or where.lane_step:
            return None
        runs: list[Run] = []
        lane = 0
        while lane < LANES:
            end = (lane // self.code.width + 1) * self.code.width if where.bases else LANES
            step = where.offsets[lane + 1] - where.offsets[lane] if lane + 1 < end else 0
            last = lane + 1
            while last < end and where.offsets[last] - where.offsets[last - 1] == step:
                last += 1
            base = where.bases[lane // self.code.width] if where.bases else where.base
            runs.append(Run(lane, last - lane, base, where.offsets[lane], step))
            if len(runs) > _MOST_RUNS:
                return None
            lane = last
        return runs

    def _run_arguments(self, run: Run, size: int, meta: int) -> tuple[Operand | int, ...]:
        base = self.at.addresses.pointer_at(run.base, run.offset)
        number = self.code.ptrtoint(base)
        lanes, first = self.values.mask_bits(), FIRST_THREAD
        if run.count < LANES:
            own = (1 << run.count) - 1
            if self.values.mask is None:
                lanes = constant(I32, own)
            else:
                moved = self.code.lshr(lanes, run.first)
                lanes = self.code.and_(moved, own)
            first = self.code.add(FIRST_THREAD, run.first) if run.first else first
        return number, constant(I64, run.step), size, meta, lanes, first

    def watch_matrix(self, instr: Instr, where: Address, size: int, kind: int, transposed: bool) -> None:
        """Eight rows of eight elements, by all lanes."""
        if not is_watched(where.roots):
            return
        state = self._begin_watch(where.roots)
        number = self.code.ptrtoint(self.values.scalar(instr.args[0]))
        stride = self.code.mul(self.values.scalar(instr.args[1]), size)
        meta = self._meta(instr, where, kind)
        self.call_hook("matrix", number, stride, size, int(transposed), meta, FIRST_THREAD)
        self._end_watch(state)

    def watch_lanes(self, instr: Instr, where: Address, addresses: list[Operand], kind: int) -> None:
        """An access that each lane makes at an address of its own."""
        if not is_watched(where.roots):
            return
        state = self._begin_watch(where.roots)
        spilled = self.at.slow.scratch("addresses", 8)
        self.at.slow.spill_chunks(spilled, 8, addresses)
        meta, lanes = self._meta(instr, where, kind), self.values.mask_bits()
        self.call_hook("lanes", spilled, NULL, where.size, meta, lanes, FIRST_THREAD)
        self._end_watch(state)

    # -- barriers and lanes ------------------------------------------------------------------------
    def watch_barrier(self, instr: Instr, kind: str) -> None:
        flags = self.values.scalar(instr.args[0])
        if kind == "fence":
            self.call_hook("fence", flags, self.values.scalar(instr.args[2]))
            return
        name = "barrier" if kind == "threadgroup_barrier" else "simdgroup_barrier"
        site = self.plan.bare_site(instr, "barrier")
        self.call_hook(name, site, flags, self.values.mask_bits(), SIMDGROUP)

    def watch_shuffle(self, instr: Instr, sources: Sequence[Operand]) -> None:
        """Which lane each lane reads, where some lanes may be idle."""
        if not self.plan.sanitized or self.values.mask is None:
            return
        place = self.at.slow.scratch("sources", 4)
        self.at.slow.spill_chunks(place, 4, sources)
        site = self.plan.bare_site(instr, "shuffle")
        self.call_hook("shuffle", site, place, self.values.mask_bits(), FIRST_THREAD)

    def watch_fixed_shuffle(self, instr: Instr, sources: Sequence[int]) -> None:
        if self.plan.sanitized and self.values.mask is not None:
            self.watch_shuffle(instr, [self.code.lane_constants(I32, sources, c) for c in range(self.code.count)])


@cache
def _telling(name: str) -> str:
    """What is done where a condition holds, which is seldom: a function for all, whose callers keep their registers."""
    code, place, lanes = Builder(), Operand("%place", I32), Operand("%lanes", I32)
    code.place("entry")
    if name == "mc.unset":
        sanitizer = code.load(PTR, code.gep(LAUNCH, of_launch("sanitizer")))
        hook = code.load(PTR, code.gep(sanitizer, of_sanitizer("unset")))
        code.call_pointer(hook, VOID, sanitizer, place, lanes, FIRST_THREAD)
    else:
        hook = code.load(PTR, code.gep(LAUNCH, of_launch("report")))
        code.call_pointer(hook, VOID, LAUNCH, WORKER, place, lanes, FIRST_THREAD)
    code.ret()
    return function(code, name, VOID, parameters(LAUNCH, WORKER, place, lanes, FIRST_THREAD), COLD, KEEPS)


def _number(instr: Instr, i: int) -> int:
    """An argument that only the engine's own calls have as a number."""
    value = instr.args[i]
    if not isinstance(value, Const) or value.value is None:
        raise UnsupportedFeature(f"a call of '{instr.callee}' whose size or place is not a constant")
    return value.value


def _root_number(roots: frozenset[Root]) -> int:
    kinds = {r.kind for r in roots}
    if kinds <= {"shared", "tgarg"} and kinds:
        return GROUP_ROOT
    if len(roots) == 1:
        root = next(iter(roots))
        if root.kind == "buffer":
            return root.slot
    return ANY_ROOT
