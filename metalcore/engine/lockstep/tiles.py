"""Accesses of a pattern that covers rows of a tile.

Lane by lane a chunk takes a load and an insertion for each lane. Where the elements that a chunk's lanes read are a few
short rows, as of an 8x8 matrix that lanes hold two elements of, each row is loaded once and the lanes pick from it.
Nothing is read but what some lane reads. Where each lane writes a row of its own, element by element, the rows are put
together and stored whole.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from metalcore.engine.ir import PTR, Instr, Type, Value, anchor_of, vector

from .addresses import Address
from .operands import Operand, poison
from .types import scalar_type

if TYPE_CHECKING:
    from .emitters import Emitters

_SHORTEST = 4  # elements of a row that is worth a load of its own
_LONGEST = 16  # of one that is stored


@dataclass(frozen=True)
class Tile:
    """Loads of one pattern, some bytes apart."""

    where: Address  # of the first one
    members: tuple[tuple[int, Instr], ...]  # bytes from the first one

    @property
    def deltas(self) -> list[int]:
        return [delta for delta, _ in self.members]


@dataclass(frozen=True)
class Rows:
    """Where the rows of a chunk start, and how many elements each of them has."""

    starts: tuple[int, ...]
    length: int

    def place(self, offset: int, size: int) -> tuple[int, int]:
        """Row and element of what lies at an offset."""
        number = max(i for i, start in enumerate(self.starts) if start <= offset)
        return number, (offset - self.starts[number]) // size


class Tiles:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values = at, at.code, at.values

    def find(
        self, segment: list[Instr], accesses: dict[Instr, Address], grouped: Container[Instr]
    ) -> dict[Instr, Tile | None]:
        """Loads of a segment that are made as tiles; None for those that are made with another one."""
        found: dict[Instr, Tile | None] = {}
        alike: dict[object, list[tuple[int, Instr]]] = {}
        for instr in segment:
            if instr.op == "store":  # what is behind it may read what it writes
                self._gather(alike, accesses, found)
                alike = {}
            elif instr.op == "load" and instr not in grouped:
                where = accesses[instr]
                if where.private or where.bases or scalar_type(instr.type) is PTR:
                    continue
                if any(self.at.memory.chunk_kind(where, c) == "other" for c in range(self.code.count)):
                    anchor, delta = anchor_of(where.pointer)
                    key = (anchor, where.offsets, scalar_type(instr.type))
                    alike.setdefault(key, []).append((delta, instr))
        self._gather(alike, accesses, found)
        return found

    def find_stores(
        self, segment: list[Instr], accesses: dict[Instr, Address], grouped: Container[Instr]
    ) -> dict[Instr, Tile | None]:
        """Stores of a segment that are made with the last of them, which has the tile; the others have None."""
        found: dict[Instr, Tile | None] = {}
        run: list[tuple[int, Instr]] = []  # stores with no other access between them
        last: object = None
        for instr in [*(i for i in segment if i in accesses), None]:
            key = self._row_key(instr, accesses, grouped)
            if run and (key is None or key != last or anchor_of(_pointer(instr))[1] != run[-1][0] + key[2]):
                self._take_stores(run, accesses, found)
                run = []
            if key is not None and instr is not None:
                run.append((anchor_of(_pointer(instr))[1], instr))
            last = key
        return found

    def _row_key(
        self, instr: Instr | None, accesses: dict[Instr, Address], grouped: Container[Instr]
    ) -> tuple[object, object, int, Type] | None:
        """What stores to one row have in common."""
        if instr is None or instr.op != "store" or instr in grouped:
            return None
        where, ty = accesses[instr], _stored(instr)
        is_other = all(self.at.memory.chunk_kind(where, c) == "other" for c in range(self.code.count))
        if where.private or where.bases or ty is PTR or not is_other:
            return None
        return anchor_of(where.pointer)[0], where.offsets, where.size, ty

    def _take_stores(
        self, run: list[tuple[int, Instr]], accesses: dict[Instr, Address], found: dict[Instr, Tile | None]
    ) -> None:
        """The longest rows of a power of two of elements; lanes must not write to the rows of others."""
        offsets = sorted(accesses[run[0][1]].offsets or ())
        apart = min(b - a for a, b in pairwise(offsets))
        size = accesses[run[0][1]].size
        while len(run) >= _SHORTEST:
            count = min(_LONGEST, 1 << (len(run).bit_length() - 1))
            if apart < count * size:
                return
            row, run = run[:count], run[count:]
            leader = row[-1][1]
            found.update({instr: None for _, instr in row})
            found[leader] = Tile(accesses[row[0][1]], tuple((delta - row[0][0], instr) for delta, instr in row))

    def store(self, tile: Tile, c: int) -> None:
        """All members of chunk c: elements of lanes become rows by mixing halves, as often as halves fit in a row."""
        parts = [self.values.chunk(instr.args[0], c) for _, instr in tile.members]
        count, width = len(parts), self.code.width
        low = [i for k in range(width // 2) for i in (k, k + width)]
        high = [i + width // 2 for i in low]
        for _ in range(count.bit_length() - 1):
            pairs = zip(parts[: count // 2], parts[count // 2 :], strict=True)
            parts = [self.code.shuffle(a, picks, b) for a, b in pairs for picks in (low, high)]
        align = min(tile.where.size, *(int(str(instr.extra.get("align", 1))) for _, instr in tile.members))
        for lane, offset in enumerate(self._own(tile, c)):
            for at in range(0, count, width):
                number, start = divmod(lane * count + at, width)
                part = parts[number]
                if count < width:
                    part = self.code.shuffle(part, range(start, start + count))
                place = self.at.addresses.pointer_at(tile.where.base_of(c), offset + at * tile.where.size)
                self.code.store(part, place, align)

    def _gather(
        self,
        alike: dict[object, list[tuple[int, Instr]]],
        accesses: dict[Instr, Address],
        found: dict[Instr, Tile | None],
    ) -> None:
        for loads in alike.values():
            for group in _neighbours(loads, accesses[loads[0][1]].size):
                if not self._take(group, accesses, found) and len(group) > 1:
                    for load in group:
                        self._take([load], accesses, found)

    def _take(
        self, loads: list[tuple[int, Instr]], accesses: dict[Instr, Address], found: dict[Instr, Tile | None]
    ) -> bool:
        first, leader = loads[0]
        tile = Tile(accesses[leader], tuple((delta - first, instr) for delta, instr in loads))
        if any(self._rows(tile, c) is None for c in range(self.code.count)):
            return False
        found.update({instr: None for _, instr in loads})
        found[leader] = tile
        return True

    def _rows(self, tile: Tile, c: int) -> Rows | None:
        """Rows of one length, a power of two, that are just what the chunk's lanes read."""
        size, own = tile.where.size, self._own(tile, c)
        starts: list[int] = []
        lengths: list[int] = []
        for offset in sorted({offset + delta for offset in own for delta in tile.deltas}):
            if starts and offset == starts[-1] + lengths[-1] * size and lengths[-1] < self.code.width:
                lengths[-1] += 1
            else:
                starts.append(offset)
                lengths.append(1)
        length = lengths[0]
        is_even = length >= _SHORTEST and length & (length - 1) == 0 and set(lengths) == {length}
        return Rows(tuple(starts), length) if is_even else None

    def _own(self, tile: Tile, c: int) -> tuple[int, ...]:
        assert tile.where.offsets is not None
        return tile.where.offsets[c * self.code.width : (c + 1) * self.code.width]

    def load(self, tile: Tile, c: int) -> None:
        """All members of chunk c."""
        rows, where = self._rows(tile, c), tile.where
        assert rows is not None
        ty = scalar_type(tile.members[0][1].type)
        align = min(int(str(instr.extra.get("align", 1))) for _, instr in tile.members)
        loaded = [self._row(where, c, start, vector(rows.length, ty), align) for start in rows.starts]
        for delta, instr in tile.members:
            places = [rows.place(offset + delta, where.size) for offset in self._own(tile, c)]
            self.values.define_chunk(instr, c, self._picked(loaded, places, rows.length))

    def _row(self, where: Address, c: int, start: int, ty: Type, align: int) -> Operand:
        return self.code.load(ty, self.at.addresses.pointer_at(where.base_of(c), start), min(where.size, align))

    def _picked(self, loaded: Sequence[Operand], places: Sequence[tuple[int, int]], length: int) -> Operand:
        used = list(dict.fromkeys(row for row, _ in places))
        if len(used) == 4:  # shuffles within the halves of a register then put lanes in order
            used = [used[0], used[2], used[1], used[3]]
        picks = [used.index(row) * length + element for row, element in places]
        parts = [loaded[row] for row in used]
        while len(parts) & (len(parts) - 1):
            parts.append(poison(parts[0].type))
        if len(parts) == 1:
            return self.code.shuffle(parts[0], picks)
        half = len(parts) // 2
        return self.code.shuffle(self.code.concat(parts[:half]), picks, self.code.concat(parts[half:]))


def _pointer(store: Instr | None) -> Value:
    assert store is not None
    return store.args[1]


def _stored(store: Instr) -> Type:
    ty = store.extra["stored"]
    assert isinstance(ty, Type)
    return scalar_type(ty)


def _neighbours(loads: list[tuple[int, Instr]], size: int) -> list[list[tuple[int, Instr]]]:
    """Loads that are one element apart, in the order of the program."""
    groups: list[list[tuple[int, Instr]]] = []
    for load in loads:
        if groups and load[0] == groups[-1][-1][0] + size:
            groups[-1].append(load)
        else:
            groups.append([load])
    return groups
