"""Code of one block: scalars at once, vector work in segments that are written chunk by chunk.

A segment is a run of lane-local instructions. Where many values live at a time its chunks are written one after the
other (all of lanes 0-7, then 8-15, ...), so that registers suffice. In checked mode a segment has one scalar test for
all its plain accesses, and a second, slow copy for when the test fails.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from metalcore.engine.abi import LOAD, STORE
from metalcore.engine.ir import I64, Block, Const, Instr, Type, is_ignored
from metalcore.errors import UnsupportedFeature

from .addresses import SLOTS, Address
from .externals import EXTERNALS, PREFIX
from .guards import signed32
from .inside import Test
from .interleave import Group
from .operands import Operand, constant
from .roots import Root
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


_STEPS = frozenset(["fadd", "fsub", "fmul", "fdiv", "call"])


class Body:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan
        self.segment: list[Instr] = []
        self.segment_stores = False

    def block_code(self, block: Block) -> None:
        """Everything but phis and the terminator."""
        self.values.pairs = {}
        self.segment = []
        self.segment_stores = False
        for phi in block.phis():
            if phi in self.values.leaving:
                for c in range(self.code.count):
                    self.values.store_out(phi, c, self.values.chunk(phi, c))
        for instr in block.instrs[:-1]:
            if instr.op in ("phi", "alloca") or is_ignored(instr) or instr in self.plan.factors.unused:
                continue
            self._place_instr(instr)
        self.flush()
        if self.plan.is_cut:
            self.at.cuts.keep_early(block)

    def _place_instr(self, instr: Instr) -> None:
        op = instr.op
        shape = self.shapes.get(instr) if instr.name else None
        if op in ("atomicrmw", "cmpxchg") or instr.extra.get("atomic"):
            self.flush()
            self.at.lanes.atomic(instr)
        elif op == "fence":
            self.flush()
        elif op == "call" and instr.callee.startswith("__mc_"):
            self._builtin(instr)
        elif op == "call" and instr.callee.startswith("llvm.prefetch"):
            self._prefetch_hint(instr)
        elif op == "load":
            self._place_load(instr)
        elif op == "store":
            self._place_store(instr)
        elif op == "insertvalue":
            raise UnsupportedFeature("a structure built as one value")
        elif shape is not None and not shape.varying:
            self._scalar(instr)
        elif self.is_late_test(instr):
            pass
        else:
            self.segment.append(instr)

    def is_late_test(self, instr: Instr) -> bool:
        """A compare that only branches read: mostly its two ends are enough, its lanes come on demand."""
        if instr.op != "icmp" or not self.shapes.get(instr).varying or instr in self.values.leaving:
            return False
        users = self.plan.users.get(instr, [])
        if users == [instr.block and instr.block.terminator]:
            return users[0].op == "br"
        is_cheap = not any(self.shapes.get(arg).varying for arg in instr.args)  # to be computed for each of them
        return is_cheap and all(user.op == "br" for user in users)

    def _prefetch_hint(self, instr: Instr) -> None:
        """__builtin_prefetch of one address for all lanes is passed on; lanes that differ get none."""
        if self.shapes.get(instr.args[0]).uniform:
            self.flush()
            self.at.streaming.prefetch(self.values.scalar(instr.args[0]), 0)

    # -- scalars -----------------------------------------------------------------------------------
    def _scalar(self, instr: Instr) -> None:
        op = instr.op
        if op == "extractvalue":
            aggregate = instr.args[0]
            path = instr.extra["path"]
            assert isinstance(path, list)
            name = self.code.extractvalue(self.values.scalar(aggregate), path[0])
        elif op in ("zext", "sext") and not self.shapes.get(instr).uniform and self.shapes.get(instr).base is None:
            name = self._extend_base(instr)
        elif op == "or" and not self.shapes.get(instr).uniform and self.shapes.get(instr).base is None:
            a, b = self.values.scalar(instr.args[0]), self.values.scalar(instr.args[1])
            name = self.code.add(a, b)
        elif self.shapes.get(instr).base is not None and instr.type.kind == "int" and instr.type.bits > 1:
            name = self.code.add(constant(scalar_type(instr.type), self.shapes.get(instr).base or 0), 0)
        elif op in ("and", "urem", "lshr", "udiv") and not self.shapes.get(instr).uniform:
            name = self.at.ops.compute(instr, None)  # the base is aligned: the operation on it alone is the new base
        else:
            name = self.at.ops.compute(instr, None)
        self.values.define_scalar(instr, name)

    def _extend_base(self, instr: Instr) -> Operand:
        """Extend the pattern's base to 64 bits from its highest lane.

        Lanes below a wrap-around come out negative instead of near 2^32: out of every buffer either way, while the
        lanes above it stay right. A signed one is extended from its lowest lane.
        """
        offsets = self.shapes.get(instr).offsets
        assert offsets is not None
        name = self.values.scalar(instr.args[0])
        end = max(offsets) if instr.op == "zext" else min(offsets)
        if end:
            name = self.code.add(name, signed32(end))
        wide = self.code.cast(instr.op, name, I64)
        return self.code.sub(wide, end) if end else wide

    # -- builtins ----------------------------------------------------------------------------------
    def _builtin(self, instr: Instr) -> None:
        external = EXTERNALS.get(instr.callee)
        if external is None or external.emitter == "attribute":
            self.at.ids.thread_id(instr, instr.callee.removeprefix(PREFIX))
            return
        if external.emitter == "argument":
            self._argument(instr, external.name)
            return
        if external.is_hook and not self.plan.sanitized:
            raise UnsupportedFeature(f"a call of '{instr.callee}' outside of sanitize mode")
        self.flush()
        if external.emitter == "barrier":
            self.at.barriers.barrier(instr, external.name)
        elif external.emitter == "report":
            self.at.watch.watch_condition(instr, external.name == "report_unset")
        elif external.emitter == "value":
            self.at.watch.watch_value(instr)
        elif external.emitter == "loss":
            self.at.watch.watch_loss(instr)
        elif external.emitter == "access":
            self.at.watch.watch_access(instr, external.name)
        else:
            self.at.simd.simd_call(instr)

    def _argument(self, instr: Instr, name: str) -> None:
        slot = instr.args[0]
        if not isinstance(slot, Const) or slot.value is None or not 0 <= slot.value < SLOTS:
            raise UnsupportedFeature("a buffer slot that is not a constant from 0 to 30")
        root = Root("buffer" if name == "arg" else "tgarg", slot.value)
        self.values.define_scalar(instr, self.at.addresses.root_base(root))

    # -- memory ------------------------------------------------------------------------------------
    def _place_load(self, instr: Instr) -> None:
        if instr.type.is_aggregate or instr.type.kind == "vector":
            raise UnsupportedFeature(f"a load of {instr.type.text} as one value")
        if instr in self.plan.factors.fragments:
            self.flush()
            self.at.products.take_fragment(instr)
            return
        if self.shapes.get(instr).uniform:
            if self.segment_stores:
                self.flush()
            self.values.define_scalar(instr, self.at.memory.load_uniform(instr))
            return
        where = self.at.addresses.of(instr.args[0], instr.type.size)
        if where.offsets is not None and (not where.uniform or where.private):
            self.segment.append(instr)
            return
        self.flush()
        self._lanes(instr, LOAD)

    def _place_store(self, instr: Instr) -> None:
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        if stored.is_aggregate or stored.kind == "vector":
            raise UnsupportedFeature(f"a store of {stored.text} as one value")
        where = self.at.addresses.of(instr.args[1], stored.size)
        if where.uniform:
            self.flush()
            self.at.memory.store_uniform(instr)
        elif where.offsets is not None:
            self.segment.append(instr)
            if not where.private:
                self.segment_stores = True
        else:
            self.flush()
            self._lanes(instr, STORE)

    def _lanes(self, instr: Instr, kind: int) -> None:
        pointer = instr.args[0] if kind == LOAD else instr.args[1]
        ty = instr.type if kind == LOAD else instr.extra["stored"]
        assert isinstance(ty, Type)
        where = self.at.addresses.of(pointer, ty.size)
        addresses = [self.at.addresses.chunk(where, c) for c in range(self.code.count)]
        if kind == LOAD:
            got = self.at.lanes.access_lanes(instr, pointer, addresses, scalar_type(ty), ty.size, LOAD, None)
            for c, name in enumerate(got):
                self.values.define_chunk(instr, c, name)
        else:
            self.at.lanes.access_lanes(
                instr, pointer, addresses, scalar_type(ty), ty.size, STORE, self.values.chunks(instr.args[0])
            )

    # -- segments ----------------------------------------------------------------------------------
    def _access(self, instr: Instr) -> Address | None:
        if instr.op == "load":
            return self.at.addresses.of(instr.args[0], instr.type.size)
        if instr.op == "store":
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            return self.at.addresses.of(instr.args[1], stored.size)
        return None

    def flush(self) -> None:
        segment, self.segment, self.segment_stores = self.segment, [], False
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
