"""Runs of lane-local instructions, written chunk by chunk.

Where many values live at a time the chunks of a segment are written one after the other (all of lanes 0-7, then 8-15,
...), so that registers suffice. In checked mode a segment has one scalar test for all its plain accesses, and a second,
slow copy for when the test fails.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from metalcore.engine.abi import LOAD, STORE
from metalcore.engine.ir import Instr, Type

from .addresses import Address
from .inside import Test
from .interleave import Group
from .operands import Operand
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


_STEPS = frozenset(["fadd", "fsub", "fmul", "fdiv", "call"])


class Segments:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.plan = at, at.code, at.values, at.plan
        self._instrs: list[Instr] = []
        self.stores = False  # whether memory that others may read is stored to

    def begin(self) -> None:
        """A new block."""
        self._instrs, self.stores = [], False

    def add(self, instr: Instr) -> None:
        self._instrs.append(instr)

    def _access(self, instr: Instr) -> Address | None:
        if instr.op == "load":
            return self.at.addresses.of(instr.args[0], instr.type.size)
        if instr.op == "store":
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            return self.at.addresses.of(instr.args[1], stored.size)
        return None

    def flush(self) -> None:
        """Write what was added."""
        segment, self._instrs, self.stores = self._instrs, [], False
        if not segment:
            return
        accesses = {i: where for i in segment if (where := self._access(i)) is not None}
        groups = self.at.interleave.find_groups(segment, accesses) if self.values.mask is None else {}
        tests: list[Operand] = []
        later: list[Test] = []
        if self.plan.checked:
            tests, later = self._bounds_tests(accesses, groups)
        if not tests and not later:
            self._segment_fast(segment, accesses, groups, masked=not self.plan.checked)
            return
        if self.values.mask is not None:
            self._segment_compact(segment, accesses)
            return
        own = [i for i in segment if i.name]
        inside = set(segment)
        outer = [i for i in own if i not in self.values.crossing and self._used_after(i, inside)]
        self.values.crossing.update(outer)
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        self.at.inside.branch_on(tests, later, fast, slow)
        saved = self.at.lanes.snapshot()
        self.code.place(fast)
        self._segment_fast(segment, accesses, groups, masked=False)
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(slow)
        for instr in segment:
            if instr in accesses:
                self._slow(instr, accesses[instr])
            else:
                for c in range(self.code.count):
                    self._vector(instr, c)
        self.code.jump(done)
        self.at.lanes.restore(saved)
        self.code.place(done)

    def _segment_compact(self, segment: list[Instr], accesses: dict[Instr, Address]) -> None:
        """Under masks, which is seldom the hot path: each access has its own test, nothing else is written twice."""
        for instr in segment:
            where = accesses.get(instr)
            if where is None:
                for c in range(self.code.count):
                    self._vector(instr, c)
                continue
            is_proven = self.plan.bounds.proves(where.pointer, where.size, where.roots)
            if not is_proven and self.at.outlined.takes(instr, where):
                align = min(where.size, int(str(instr.extra.get("align", 1))))
                self._define(instr, self.at.outlined.access(instr, where, _memory_type(instr), align))
                continue
            fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
            if not self.at.inside.branch(where, fast, slow):
                self._segment_fast([instr], accesses, {}, masked=False)
                continue
            if instr.name:
                self.values.crossing.add(instr)
            saved = self.at.lanes.snapshot()
            self.code.place(fast)
            self._segment_fast([instr], accesses, {}, masked=False)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(slow)
            self._slow(instr, where)
            self.code.jump(done)
            self.at.lanes.restore(saved)
            self.code.place(done)

    def _bounds_tests(
        self, accesses: dict[Instr, Address], groups: dict[Instr, Group]
    ) -> tuple[list[Operand], list[Test]]:
        """Scalar tests that no access of the segment leaves its memory; fields of a record are tested together. And
        those that are made only where the size of the group does not settle them."""
        tested: list[tuple[Address, list[Address]]] = []  # what is tested, for which accesses
        grouped: set[Instr] = set()
        for group in groups.values():
            grouped.update(instr for _, instr in group.members)
            delta, instr = group.members[0]
            where = accesses[instr]
            assert where.offsets is not None
            shift = group.low - delta
            record = Address(
                where.pointer, where.base, tuple(o + shift for o in where.offsets), where.roots, group.span
            )
            tested.append((record, [accesses[i] for _, i in group.members]))
        tested += [(where, [where]) for instr, where in accesses.items() if instr not in grouped]
        tests: list[Operand] = []
        later: list[Test] = []
        for whole, parts in tested:
            if all(self.plan.bounds.proves(w.pointer, w.size, w.roots) or self.at.proofs.shows(w) for w in parts):
                continue
            if all(self.at.proofs.covers(w) for w in parts):
                later.append(partial(self.at.inside.record, whole))
            else:
                tests.append(self.at.inside.record(whole))
        return tests, later

    def _used_after(self, value: Instr, inside: set[Instr]) -> bool:
        return any(user not in inside for user in self.plan.users.get(value, ()))

    def _segment_fast(
        self, segment: list[Instr], accesses: dict[Instr, Address], groups: dict[Instr, Group], masked: bool
    ) -> None:
        grouped = {instr for group in groups.values() for _, instr in group.members}
        tiles = self.at.tiles.find(segment, accesses, grouped) if self.values.mask is None else {}
        rows = self.at.tiles.find_stores(segment, accesses, grouped) if self.values.mask is None else {}
        step = self._chunks_at_once(segment)
        for start in range(0, self.code.count, step):
            for instr in segment:
                if instr in rows:
                    if (tile := rows[instr]) is not None:
                        for c in range(start, start + step):
                            self.at.tiles.store(tile, c)
                    continue
                if instr.op == "store" and instr not in grouped:
                    self.at.memory.store_chunks(instr, accesses[instr], range(start, start + step))
                    continue
                for c in range(start, start + step):
                    if instr in grouped:
                        group = groups.get(instr)
                        if group is not None:
                            if group.store:
                                self.at.interleave.store_group(group, c)
                            else:
                                self.at.interleave.load_group(group, c)
                    elif instr in tiles:
                        if (tile := tiles[instr]) is not None:
                            self.at.tiles.load(tile, c)
                    elif instr.op == "load":
                        self.values.define_chunk(
                            instr, c, self.at.memory.load_pattern(instr, accesses[instr], c, masked)
                        )
                    else:
                        self._vector(instr, c)

    def _chunks_at_once(self, segment: list[Instr]) -> int:
        """How many chunks to keep in flight: all where few values live at a time, one where many do."""
        last: dict[Instr, int] = {}
        for at, instr in enumerate(segment):
            for arg in instr.args:
                if isinstance(arg, Instr) and self.values.shape(arg).varying:
                    last[arg] = at
        own = set(segment)
        live = sum(1 for value in last if value not in own)
        most = live
        for at, instr in enumerate(segment):
            live -= sum(1 for arg in {a for a in instr.args if isinstance(a, Instr)} if last.get(arg) == at)
            if instr.name and (instr in last or instr in self.values.crossing):
                live += 1
            most = max(most, live)
        # A long chain of steps waits for its own results: then all chunks in flight are worth a few spills.
        is_long = sum(1 for i in segment if i.op in _STEPS) >= 10
        registers = 24 if self.code.width == 16 else 20 if is_long and most <= 5 else 12
        step = self.code.count
        while step > 1 and most * step > registers:
            step //= 2
        return step

    def _define(self, instr: Instr, chunks: list[Operand]) -> None:
        for c, name in enumerate(chunks):
            self.values.define_chunk(instr, c, name)

    def _slow(self, instr: Instr, where: Address) -> None:
        if self.at.outlined.takes(instr, where):
            self._define(instr, self.at.outlined.slow(instr, where, _memory_type(instr)))
            return
        data = self.at.slow.scratch("data", 16)
        lanes = self.at.slow.spill_addresses(where)
        bits = self.values.bits_aside()
        if instr.op == "load":
            ty = scalar_type(instr.type)
            self.at.slow.call(instr, where, LOAD, lanes, data, bits)
            for c in range(self.code.count):
                self.values.define_chunk(instr, c, self.at.slow.reload_chunk(data, ty, where.size, c))
        else:
            self.at.slow.spill_chunks(data, where.size, self.values.chunks(instr.args[0]))
            self.at.slow.call(instr, where, STORE, lanes, data, bits)

    def _vector(self, instr: Instr, c: int) -> None:
        if instr.op == "extractvalue":
            aggregate = instr.args[0]
            path = instr.extra["path"]
            assert isinstance(path, list) and isinstance(aggregate, Instr)
            if aggregate in self.plan.homes:
                if instr in self.values.leaving:
                    self.values.store_out(instr, c, self.values.chunk(instr, c))
                return  # it is at home
            if aggregate.op == "cmpxchg" or aggregate.callee.startswith("__mc_simdgroup"):
                name = self.at.lanes.pair_element(aggregate, path[0], c)
            else:
                name = self.code.extractvalue(self.values.chunk(aggregate, c), path[0])
        else:
            name = self.at.ops.compute(instr, c)
        if instr.type.kind == "struct":
            self.values.vectors[instr, c] = name
        else:
            self.values.define_chunk(instr, c, name)


def _memory_type(instr: Instr) -> Type:
    """Of what a load or store moves."""
    stored = instr.extra["stored"] if instr.op == "store" else instr.type
    assert isinstance(stored, Type)
    return scalar_type(stored)
