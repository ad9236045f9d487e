"""Code of one block: scalars at once, vector work in segments (`segments.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import LOAD, STORE
from metalcore.engine.ir import I64, Block, Const, Instr, Type, is_ignored
from metalcore.errors import UnsupportedFeature

from .addresses import SLOTS
from .externals import EXTERNALS, PREFIX
from .guards import signed32
from .operands import Operand, constant
from .roots import Root
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


class Body:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.shapes, self.plan = at, at.code, at.values, at.shapes, at.plan

    def block_code(self, block: Block) -> None:
        """Everything but phis and the terminator."""
        self.values.pairs = {}
        self.at.segments.begin()
        for phi in block.phis():
            if phi in self.values.leaving:
                for c in range(self.code.count):
                    self.values.store_out(phi, c, self.values.chunk(phi, c))
        for instr in block.instrs[:-1]:
            if instr.op in ("phi", "alloca") or is_ignored(instr) or instr in self.plan.factors.unused:
                continue
            self._place_instr(instr)
        self.at.segments.flush()
        if self.plan.is_cut:
            self.at.cuts.keep_early(block)

    def _place_instr(self, instr: Instr) -> None:
        op = instr.op
        shape = self.shapes.get(instr) if instr.name else None
        if op in ("atomicrmw", "cmpxchg") or instr.extra.get("atomic"):
            self.at.segments.flush()
            self.at.lanes.atomic(instr)
        elif op == "fence":
            self.at.segments.flush()
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
            self.at.segments.add(instr)

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
            self.at.segments.flush()
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
        self.at.segments.flush()
        if external.emitter == "barrier":
            self.at.barriers.barrier(instr, external.name)
        elif external.emitter == "report":
            self.at.watch.watch_condition(instr, external.name == "report_unset")
        elif external.emitter == "tell":
            self.at.watch.tell(instr)
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
            self.at.segments.flush()
            self.at.products.take_fragment(instr)
            return
        if self.shapes.get(instr).uniform:
            if self.at.segments.stores:
                self.at.segments.flush()
            self.values.define_scalar(instr, self.at.memory.load_uniform(instr))
            return
        where = self.at.addresses.of(instr.args[0], instr.type.size)
        if where.offsets is not None and (not where.uniform or where.private):
            self.at.segments.add(instr)
            return
        self.at.segments.flush()
        self._lanes(instr, LOAD)

    def _place_store(self, instr: Instr) -> None:
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        if stored.is_aggregate or stored.kind == "vector":
            raise UnsupportedFeature(f"a store of {stored.text} as one value")
        where = self.at.addresses.of(instr.args[1], stored.size)
        if where.uniform:
            self.at.segments.flush()
            self.at.memory.store_uniform(instr)
        elif where.offsets is not None:
            self.at.segments.add(instr)
            if not where.private:
                self.at.segments.stores = True
        else:
            self.at.segments.flush()
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
