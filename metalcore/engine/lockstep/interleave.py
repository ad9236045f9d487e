"""Fields of an array of records (float4, packed3, four elements a thread): wide loads and shuffles for all lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ir import Instr, Type, Value, anchor_of
from .memory import Address
from .shapes import LANE
from .streaming import Row
from .values import scalar_type

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
            key = (anchor, stride, where.size, scalar_type(ty) == "ptr")
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
    def group_base(self, group: Group, c: int) -> str:
        delta, first = group.members[0]
        pointer = first.args[1] if group.store else first.args[0]
        shape = self.values.shape(pointer)
        assert shape.offsets is not None
        offset = shape.offsets[0] + group.low - delta + c * self.code.width * group.stride
        return self.at.memory.pointer_at(self.values.scalar(pointer), offset)

    def load_group(self, group: Group, c: int) -> None:
        """All members of chunk c."""
        ty = f"i{group.size * 8}"
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
            if want == "ptr":
                name = self.code.temp(f"inttoptr {self.code.vec(ty)} {name} to {self.code.vec('ptr')}")
            elif want != ty:
                name = self.code.temp(f"bitcast {self.code.vec(ty)} {name} to {self.code.vec(want)}")
            self.values.define_chunk(instr, c, name)

    def _is_quad(self, group: Group) -> bool:
        return self.code.width == 8 and group.size == 4 and group.stride == 16 and group.span == 16

    @staticmethod
    def _is_pair(group: Group) -> bool:
        return group.size == 2 and group.stride == 4 and group.span == 4

    def _pair_fields(self, base: str) -> dict[int, str]:
        """Two halves of a 32-bit number are had by shifting: a bfloat is the upper half of a float."""
        vec = self.code.vec("i32")
        both = self.code.temp(f"load {vec}, ptr {base}, align 2")
        upper = self.code.temp(f"lshr {vec} {both}, splat (i32 16)")
        return {
            i: self.code.temp(f"trunc {vec} {name} to {self.code.vec('i16')}") for i, name in enumerate((both, upper))
        }

    def _pair(self, fields: list[str]) -> str:
        vec = self.code.vec("i32")
        # Two bfloats that were just rounded: put together first, then NaNs are filled in, which LLVM does with less.
        floats = [self.values.rounded[name] for name in fields if name in self.values.rounded]
        if len(floats) == 2:
            low = self.code.temp(f"lshr {vec} {floats[0][0]}, splat (i32 16)")
            high = self.code.temp(f"and {vec} {floats[1][0]}, splat (i32 -65536)")
            both = self.code.temp(f"or disjoint {vec} {low}, {high}")
            no_low = self.code.temp(f"and {vec} {floats[0][1]}, splat (i32 65535)")
            no_high = self.code.temp(f"and {vec} {floats[1][1]}, splat (i32 -65536)")
            nan = self.code.temp(f"or disjoint {vec} {no_low}, {no_high}")
            return self.code.temp(f"or {vec} {both}, {nan}")
        low, high = (self.code.temp(f"zext {self.code.vec('i16')} {name} to {vec}") for name in fields)
        shifted = self.code.temp(f"shl {vec} {high}, splat (i32 16)")
        return self.code.temp(f"or disjoint {vec} {shifted}, {low}")

    def _wide_fields(self, group: Group, base: str, ty: str) -> dict[int, str]:
        total = ((self.code.width - 1) * group.stride + group.span) // group.size
        whole = self.code.temp(f"load <{total} x {ty}>, ptr {base}, align {group.size}")
        fields = {}
        for index in {(d - group.low) // group.size for d, _ in group.members}:
            picks = ", ".join(f"i32 {lane * group.width + index}" for lane in range(self.code.width))
            fields[index] = self.code.temp(
                f"shufflevector <{total} x {ty}> {whole}, <{total} x {ty}> poison, {self.code.vec('i32')} <{picks}>"
            )
        return fields

    def _quad_fields(self, group: Group, base: str) -> dict[int, str]:
        """Eight float4: a transpose within 128-bit halves, so that no shuffle crosses them."""
        rows = [
            self.code.temp(f"load <4 x i32>, ptr {self.at.memory.pointer_at(base, 16 * i)}, align 4") for i in range(8)
        ]
        eight = ", ".join(f"i32 {i}" for i in range(8))
        pairs = [
            self.code.temp(f"shufflevector <4 x i32> {rows[i]}, <4 x i32> {rows[i + 4]}, <8 x i32> <{eight}>")
            for i in range(4)
        ]
        return dict(enumerate(self._transpose(pairs)))

    def _shuffle8(self, a: str, b: str, picks: list[int]) -> str:
        text = ", ".join(f"i32 {p}" for p in picks)
        return self.code.temp(f"shufflevector <8 x i32> {a}, <8 x i32> {b}, <8 x i32> <{text}>")

    def _transpose(self, v: list[str]) -> list[str]:
        low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
        first, second = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
        a, b = self._shuffle8(v[0], v[1], low), self._shuffle8(v[2], v[3], low)
        p, q = self._shuffle8(v[0], v[1], high), self._shuffle8(v[2], v[3], high)
        return [
            self._shuffle8(a, b, first),
            self._shuffle8(a, b, second),
            self._shuffle8(p, q, first),
            self._shuffle8(p, q, second),
        ]

    def store_group(self, group: Group, c: int) -> None:
        ty = f"i{group.size * 8}"
        names: dict[int, str] = {}
        for delta, instr in group.members:
            stored = instr.extra["stored"]
            assert isinstance(stored, Type)
            have = scalar_type(stored)
            name = self.values.chunk(instr.args[0], c)
            if have == "ptr":
                name = self.code.temp(f"ptrtoint {self.code.vec('ptr')} {name} to {self.code.vec(ty)}")
            elif have != ty:
                name = self.code.temp(f"bitcast {self.code.vec(have)} {name} to {self.code.vec(ty)}")
            names[(delta - group.low) // group.size] = name
        fields = [names[i] for i in range(group.width)]
        base = self.group_base(group, c)
        row = Row(group.size)
        if self._is_quad(group):
            for i, quad in enumerate(self._transpose(fields)):
                for half in (0, 1):
                    picks = ", ".join(f"i32 {4 * half + j}" for j in range(4))
                    part = self.code.temp(f"shufflevector <8 x i32> {quad}, <8 x i32> poison, <4 x i32> <{picks}>")
                    row.add(f"<4 x i32> {part}", self.at.memory.pointer_at(base, 16 * (i + 4 * half)), 0, 16)
        elif self._is_pair(group):
            row.add(f"{self.code.vec('i32')} {self._pair(fields)}", base, 0, 4 * self.code.width)
        else:
            row.add(self._mixed(fields, ty), base, 0, self.code.width * group.stride)
        self.at.streaming.store_row(group.members[-1][1], row)

    def _mixed(self, fields: list[str], ty: str) -> str:
        """Fields of records, one record after the other, with their type."""
        whole, width = self._concat_any(fields, ty)
        picks = ", ".join(
            f"i32 {f * self.code.width + lane}" for lane in range(self.code.width) for f in range(len(fields))
        )
        vec, total = f"<{width} x {ty}>", self.code.width * len(fields)
        return f"<{total} x {ty}> " + self.code.temp(
            f"shufflevector {vec} {whole}, {vec} poison, <{total} x i32> <{picks}>"
        )

    def _concat_any(self, parts: list[str], ty: str) -> tuple[str, int]:
        while len(parts) & (len(parts) - 1):
            parts = [*parts, "poison"]
        return self.at.matrix.concat(parts, ty, self.code.width)
