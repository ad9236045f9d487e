"""Loads and stores, one for all lanes or of a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import LOAD, STORE
from metalcore.engine.ir import Instr, Type, Value, vector
from metalcore.engine.ir.types import I1, I8, I16, I32, I64, I128, PTR

from .addresses import Address
from .gathers import gather_at_once, masked_load, masked_store, scatter_at_once
from .operands import FALSE, Operand, constant, poison
from .streaming import Row
from .values import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


class Memory:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.roots, self.plan = at, at.code, at.values, at.roots, at.plan

    def load_uniform(self, instr: Instr) -> Operand:
        if (made := self.at.together.made(instr)) is not None:
            return made
        where = self.at.addresses.of(instr.args[0], instr.type.size)
        ty = scalar_type(instr.type)
        align = int(str(instr.extra.get("align", 1)))
        if self.at.outlined.takes_one(instr, where):
            return self.at.outlined.one(instr, where, ty, align)[0]
        if (made := self.at.together.loads(instr, where)) is not None:
            return made
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        if not self.plan.checked or not self.at.inside.branch(where, fast, slow):
            return self.code.load(ty, where.base, align)
        result = self.code.slot((instr, "checked"), ty)
        self.code.place(fast)
        value = self.code.load(ty, where.base, align)
        self.code.store(value, result)
        self.code.jump(done)
        self.code.place(slow)
        if self.at.outlined.takes(instr, where):
            (value,) = self.at.outlined.uniform(instr, where, ty)
        else:
            data = self.at.slow.scratch("data", 16)
            self.code.store(constant(I128, 0), data)
            self.at.slow.call(instr, where, LOAD, self.at.slow.spill_addresses(where), data, self.one_lane_bits())
            lane = self.first_lane()
            wide = self.code.zext(lane, I64)
            at = self.code.mul(wide, where.size)
            pointer = self.code.gep(data, at)
            value = self.code.load(ty, pointer, 1)
        self.code.store(value, result)
        self.code.jump(done)
        self.code.place(done)
        return self.code.load(ty, result)

    def first_lane(self) -> Operand:
        if self.values.mask is None:
            return constant(I32, 0)
        return self.code.intrinsic("cttz", self.values.bits_aside(), FALSE)

    def one_lane_bits(self) -> Operand:
        """All lanes do the same: report it for the first one."""
        if self.values.mask is None:
            return constant(I32, 1)
        bits = self.values.bits_aside()
        minus = self.code.sub(0, bits)
        return self.code.and_(bits, minus)

    def last_lane_value(self, value: Value) -> Operand:
        """Of lanes that store to one place, the last one wins."""
        if self.values.shape(value).uniform:
            return self.values.scalar(value)
        if self.values.mask is None:
            return self.code.extract(self.values.chunk(value, self.code.count - 1), self.code.width - 1)
        size = value.type.size if value.type.bits != 1 else 1
        data = self.at.slow.scratch("last", 16)
        chunks = self.values.chunks(value)
        if chunks[0].type.item is I1:
            chunks = [self.code.zext(x, self.code.vec(I8)) for x in chunks]
        ty = chunks[0].type.item
        self.at.slow.spill_chunks(data, size, chunks)
        zeros = self.code.intrinsic("ctlz", self.values.bits_aside(), FALSE)
        lane = self.code.xor(zeros, 31)
        wide = self.code.zext(lane, I64)
        at = self.code.gep(data, wide, ty)
        return self.code.load(ty, at)

    def store_uniform(self, instr: Instr) -> None:
        if self.at.together.made(instr) is not None:
            return
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        where = self.at.addresses.of(instr.args[1], stored.size)
        if self.at.together.stores(instr, where):
            return
        value = self.last_lane_value(instr.args[0])
        align = int(str(instr.extra.get("align", 1)))
        if self.at.outlined.takes_one(instr, where):
            self.at.outlined.one(instr, where, value.type, align, value)
            return
        fast, slow, done = (self.code.new_label(x) for x in ("in", "out", "done"))
        if not self.plan.checked or not self.at.inside.branch(where, fast, slow):
            self.code.store(value, where.base, align)
            return
        self.code.place(fast)
        self.code.store(value, where.base, align)
        self.code.jump(done)
        self.code.place(slow)
        if self.at.outlined.takes(instr, where):
            self.at.outlined.uniform(instr, where, value.type, value)
            self.code.jump(done)
            self.code.place(done)
            return
        data = self.at.slow.scratch("data", 16)
        bits = self.one_lane_bits()
        lane = self.code.zext(self.first_lane(), I64)
        at = self.code.mul(lane, where.size)
        pointer = self.code.gep(data, at)
        self.code.store(value, pointer, 1)
        self.at.slow.call(instr, where, STORE, self.at.slow.spill_addresses(where), data, bits)
        self.code.jump(done)
        self.code.place(done)

    def chunk_kind(self, where: Address, c: int) -> str:
        assert where.offsets is not None
        part = where.offsets[c * self.code.width : (c + 1) * self.code.width]
        if all(o == part[0] for o in part):
            return "same"
        if all(o == part[0] + i * where.size for i, o in enumerate(part)):
            return "row"
        return "other"

    def has_masked(self, size: int, ty: Type) -> bool:
        """Whether the machine loads and stores a row of these under a mask: AVX2 only numbers of 32 and 64 bits."""
        return ty is not PTR and (size in (4, 8) or (self.code.width == 16 and size in (1, 2)))

    def load_pattern(self, instr: Instr, where: Address, c: int, masked: bool) -> Operand:
        assert where.offsets is not None
        ty, align = scalar_type(instr.type), min(where.size, int(str(instr.extra.get("align", 1))))
        vec = self.code.vec(ty)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if masked and self.values.mask is not None:
            if kind == "row" and self.has_masked(where.size, ty):
                pointer = self.at.addresses.pointer_at(where.base_of(c), first)
                if self.plan.machine.masks_rows:
                    return masked_load(self.code, pointer, vec, align, self.values.mask[c])
                return self.at.gathers.masked_row(pointer, vec, align, self.values.mask[c])
            return self.at.gathers.gather(self.at.addresses.chunk(where, c), ty, align, self.values.mask[c])
        if kind == "row":
            self.at.asking.ask(instr, where, c)
            return self.code.load(vec, self.at.addresses.pointer_at(where.base_of(c), first), align)
        if kind == "same":
            one = self.code.load(ty, self.at.addresses.pointer_at(where.base_of(c), first), align)
            return self.values.splat(one)
        if self.plan.is_large and self.plan.sanitized:
            return gather_at_once(self.code, self.at.addresses.chunk(where, c), ty, align, None)
        result = poison(vec)
        for i in range(self.code.width):
            pointer = self.at.addresses.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
            one = self.code.load(ty, pointer, align)
            result = self.code.insert(result, one, i)
        return result

    def store_chunks(self, instr: Instr, where: Address, chunks: range) -> None:
        """Chunks of a store, in the order of lanes; those that lie side by side as one row."""
        assert where.offsets is not None
        row = Row(min(where.size, int(str(instr.extra.get("align", 1)))))
        left = list(chunks)
        while left:
            c = left[0]
            first = where.offsets[c * self.code.width]
            is_row = self.values.mask is None and self.chunk_kind(where, c) == "row"
            if not is_row or where.bases or first != row.end:
                self.at.streaming.store_row(instr, row)
                row = Row(row.align)
            if not is_row:
                self.store_pattern(instr, where, c)
                left = left[1:]
                continue
            pair = self.store_pair(instr, where, c) if len(left) > 1 else None
            taken = left[: 2 if pair else 1]
            row.add(*(pair or self.store_single(instr, where, c)), first, len(taken) * self.code.width * where.size)
            row.ahead += [self.at.fetching.ahead(where, i, is_load=False) for i in taken]
            left = left[len(taken) :]
        self.at.streaming.store_row(instr, row)

    def store_single(self, instr: Instr, where: Address, c: int) -> tuple[Operand, Operand]:
        assert where.offsets is not None
        value = self.values.chunk(instr.args[0], c)
        pointer = self.at.addresses.pointer_at(where.base_of(c), where.offsets[c * self.code.width])
        return value, pointer

    def store_pattern(self, instr: Instr, where: Address, c: int) -> None:
        assert where.offsets is not None
        stored = instr.extra["stored"]
        assert isinstance(stored, Type)
        ty, align = scalar_type(stored), min(where.size, int(str(instr.extra.get("align", 1))))
        value = self.values.chunk(instr.args[0], c)
        first = where.offsets[c * self.code.width]
        kind = self.chunk_kind(where, c)
        if kind == "row" and self.values.mask is not None and self.has_masked(where.size, ty):
            pointer = self.at.addresses.pointer_at(where.base_of(c), first)
            if self.plan.machine.masks_rows:
                masked_store(self.code, pointer, value, align, self.values.mask[c])
            else:
                self.at.gathers.store_masked_row(pointer, value, align, self.values.mask[c])
        elif self.values.mask is None and self.plan.is_large and self.plan.sanitized:
            scatter_at_once(self.code, self.at.addresses.chunk(where, c), value, align, None)
        elif self.values.mask is None:
            for i in range(self.code.width):
                one = self.code.extract(value, i)
                pointer = self.at.addresses.pointer_at(where.base_of(c), where.offsets[c * self.code.width + i])
                self.code.store(one, pointer, align)
        else:
            self.at.gathers.scatter_lanes(self.at.addresses.chunk(where, c), value, align, self.values.mask[c])

    def store_pair(self, instr: Instr, where: Address, c: int) -> tuple[Operand, Operand] | None:
        """Chunks c and c + 1 as one part, where they are two halves of a row of numbers cut to 16 bits."""
        low, high = (self.values.tops.get(self.values.chunk(instr.args[0], i)) for i in (c, c + 1))
        assert where.offsets is not None
        first, second = where.offsets[c * self.code.width], where.offsets[(c + 1) * self.code.width]
        is_next = self.chunk_kind(where, c + 1) == "row" and second - first == 2 * self.code.width
        if where.bases or not is_next or low is None or high is None:
            return None
        value = self.code.trunc(self.code.concat([low, high]), vector(2 * self.code.width, I16))
        return value, self.at.addresses.pointer_at(where.base_of(c), first)
