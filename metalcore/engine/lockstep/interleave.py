"""Fields of an array of records (float4, packed3, four elements a thread): wide loads and shuffles for all lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metalcore.engine.ir import I16, I32, PTR, Instr, Type, Value, anchor_of, integer, vector

from .addresses import Address
from .operands import Operand, poison
from .shape import LANE
from .streaming import Row
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters


@dataclass
class Group:
    """Accesses of one kind to fields of the same record; lane l's record starts l * stride bytes behind lane 0's."""

    anchor: Value
    stride: int
    size: int
    store: bool
    members: list[tuple[int, Instr]] = field(default_factory=list)  # (byte offset in the record, instruction)

    @property
    def low(self) -> int:
        return min(delta for delta, _ in self.members)

    @property
    def span(self) -> int:
        return max(delta for delta, _ in self.members) - self.low + self.size

    @property
    def width(self) -> int:
        return self.stride // self.size


class Interleave:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values

    def find_groups(self, segment: list[Instr], accesses: dict[Instr, Address]) -> dict[Instr, Group]:
        """Groups by their leading member: the first load, or the last store."""
        groups: list[Group] = []
        open_loads: dict[object, Group] = {}
        open_stores: dict[object, Group] = {}
        for instr in segment:
            where = accesses.get(instr)
            if where is None or where.private:
                continue
            store = instr.op == "store"
            stride = self._stride(where)
            if store:
                open_loads.clear()
            else:
                open_stores.clear()
            if not stride:
                if store:
                    open_stores.clear()
                continue
            anchor, delta = anchor_of(where.pointer)
            ty = instr.extra["stored"] if store else instr.type
            assert isinstance(ty, Type)
            key = (anchor, stride, where.size, scalar_type(ty) is PTR)
            table = open_stores if store else open_loads
            group = table.get(key)
            if group is not None and not self._fits(group, delta):
                group = None
            if group is None:
                if store:
                    open_stores.clear()
                group = Group(anchor, stride, where.size, store)
                groups.append(group)
                table[key] = group
            elif store and len(open_stores) > 1:
                continue
            group.members.append((delta, instr))
        leaders: dict[Instr, Group] = {}
        for group in groups:
            if not self._worth(group):
                continue
            leader = group.members[-1][1] if group.store else group.members[0][1]
            leaders[leader] = group
        return leaders

    @staticmethod
    def _fits(group: Group, delta: int) -> bool:
        deltas = [d for d, _ in group.members] + [delta]
        spread = max(deltas) - min(deltas)
        if group.store and delta in deltas[:-1]:
            return False
        return spread + group.size <= group.stride and (delta - deltas[0]) % group.size == 0

    @staticmethod
    def _worth(group: Group) -> bool:
        if group.store:
            return group.span == group.stride and len({d for d, _ in group.members}) == group.width
        return True

    @staticmethod
    def _stride(where: Address) -> int:
        assert where.offsets is not None
        if where.bases:
            return 0
        stride = where.offsets[1] - where.offsets[0]
        if stride <= where.size or stride % where.size or stride // where.size > 8 or where.size > 8:
            return 0
        return stride if where.offsets == tuple(where.offsets[0] + lane * stride for lane in LANE) else 0

    # -- code --------------------------------------------------------------------------------------
    def group_base(self, group: Group, c: int) -> Operand:
        delta, first = group.members[0]
        pointer = first.args[1] if group.store else first.args[0]
        shape = self.values.shape(pointer)
        assert shape.offsets is not None
        offset = shape.offsets[0] + group.low - delta + c * self.code.width * group.stride
        return self.at.addresses.pointer_at(self.values.scalar(pointer), offset)

    def load_group(self, group: Group, c: int) -> None:
        """All members of chunk c."""
        ty = integer(group.size * 8)
        base = self.group_base(group, c)
        if self._is_quad(group):
            fields = self._quad_fields(group, base)
        elif self._is_pair(group):
            fields = self._pair_fields(base)
        else:
            fields = self._wide_fields(group, base, ty)
        for delta, instr in group.members:
            name = fields[(delta - group.low) // group.size]
            want = scalar_type(instr.type)
            if want is PTR:
                name = self.code.cast("inttoptr", name, self.code.vec(PTR))
            else:
                name = self.code.bitcast(name, self.code.vec(want))
            self.values.define_chunk(instr, c, name)

    def _is_quad(self, group: Group) -> bool:
        return self.code.width == 8 and group.size == 4 and group.stride == 16 and group.span == 16

    @staticmethod
    def _is_pair(group: Group) -> bool:
        return group.size == 2 and group.stride == 4 and group.span == 4

    def _pair_fields(self, base: Operand) -> dict[int, Operand]:
        """Two halves of a 32-bit number are had by shifting: a bfloat is the upper half of a float."""
        both = self.code.load(self.code.vec(I32), base, 2)
        upper = self.code.lshr(both, 16)
        return {i: self.code.trunc(name, self.code.vec(I16)) for i, name in enumerate((both, upper))}

    def _pair(self, fields: list[Operand]) -> Operand:
        # Two bfloats that were just rounded: put together first, then NaNs are filled in, which LLVM does with less.
        floats = [self.values.rounded[name] for name in fields if name in self.values.rounded]
        if len(floats) == 2:
            low = self.code.lshr(floats[0][0], 16)
            high = self.code.and_(floats[1][0], -65536)
            both = self.code.or_(low, high, disjoint=True)
            no_low = self.code.and_(floats[0][1], 65535)
            no_high = self.code.and_(floats[1][1], -65536)
            nan = self.code.or_(no_low, no_high, disjoint=True)
            return self.code.or_(both, nan)
        low, high = (self.code.zext(name, self.code.vec(I32)) for name in fields)
        shifted = self.code.shl(high, 16)
        return self.code.or_(shifted, low, disjoint=True)

    def _wide_fields(self, group: Group, base: Operand, ty: Type) -> dict[int, Operand]:
        total = ((self.code.width - 1) * group.stride + group.span) // group.size
        whole = self.code.load(vector(total, ty), base, group.size)
        fields = {}
        for index in {(d - group.low) // group.size for d, _ in group.members}:
            fields[index] = self.code.shuffle(whole, [lane * group.width + index for lane in range(self.code.width)])
        return fields

    def _quad_fields(self, group: Group, base: Operand) -> dict[int, Operand]:
        """Eight float4: a transpose within 128-bit halves, so that no shuffle crosses them."""
        rows = [self.code.load(vector(4, I32), self.at.addresses.pointer_at(base, 16 * i), 4) for i in range(8)]
        pairs = [self.code.shuffle(rows[i], range(8), rows[i + 4]) for i in range(4)]
        return dict(enumerate(self.code.transpose_quads(pairs)))

    def store_group(self, group: Group, c: int) -> None:
        ty = integer(group.size * 8)
        names: dict[int, Operand] = {}
        for delta, instr in group.members:
            name = self.values.chunk(instr.args[0], c)
            if name.type.is_ptr:
                name = self.code.ptrtoint(name, self.code.vec(ty))
            else:
                name = self.code.bitcast(name, self.code.vec(ty))
            names[(delta - group.low) // group.size] = name
        fields = [names[i] for i in range(group.width)]
        base = self.group_base(group, c)
        row = Row(group.size)
        if self._is_quad(group):
            for i, quad in enumerate(self.code.transpose_quads(fields)):
                for half in (0, 1):
                    part = self.code.shuffle(quad, range(4 * half, 4 * half + 4))
                    row.add(part, self.at.addresses.pointer_at(base, 16 * (i + 4 * half)), 0, 16)
        elif self._is_pair(group):
            row.add(self._pair(fields), base, 0, 4 * self.code.width)
        else:
            row.add(self._mixed(fields), base, 0, self.code.width * group.stride)
        self.at.streaming.store_row(group.members[-1][1], row)

    def _mixed(self, fields: list[Operand]) -> Operand:
        """Fields of records, one record after the other."""
        parts = list(fields)
        while len(parts) & (len(parts) - 1):
            parts.append(poison(parts[0].type))
        lanes = range(self.code.width)
        return self.code.shuffle(
            self.code.concat(parts), [f * self.code.width + lane for lane in lanes for f in range(len(fields))]
        )
