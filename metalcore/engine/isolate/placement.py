"""Where the memory of one launch lies in the worker: copies in the arena, shared arrays, and the addresses of both."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, Protocol

from metalcore.engine.isolate.memory import Segment, copy, known, read_word, write_word
from metalcore.engine.runtime import layout
from metalcore.errors import IsolationError

if TYPE_CHECKING:
    from metalcore.engine.runtime.binding import Packed
    from metalcore.engine.runtime.launch import Plan

LINE = 64  # copies lie as the arrays do within a line of the cache
_GAP = 4096  # between them where pointers are followed: one that leads past an array meets no other
_MARKS = layout.INLINE | layout.FIXED
_REGION = struct.Struct("=3Q")


class Mapper(Protocol):
    """Who shows a shared array to the worker."""

    def segment(self, segment: Segment, writable: bool) -> int: ...


class _Bound(NamedTuple):
    address: int
    size: int
    writable: bool
    slot: int  # -1: reached through a pointer


class _Block(NamedTuple):
    """A range here, and how far from it it lies there."""

    low: int
    high: int
    distance: int


class Placement:
    """The arguments of a launch as the worker takes them."""

    def __init__(self, mapper: Mapper, plan: Plan, packed: Packed) -> None:
        self._packed, self._slots = packed, plan.slots
        self._words = list(struct.unpack_from(f"={2 * plan.slots}Q", packed.data))
        flat = packed.regions[: 3 * packed.n_regions] if packed.n_regions else ()
        self._regions = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
        # A kernel may keep the address of an argument in memory and write through it later.
        follows = plan.kernel.native.writes_anywhere or plan.edge.native.writes_anywhere
        anywhere = [follows and is_writable for _, _, is_writable in plan.needs]
        bound = [
            _Bound(address, size & ~_MARKS, slot in plan.written or (not size & layout.FIXED and anywhere[slot]), slot)
            for slot, (address, size) in enumerate(zip(self._words[::2], self._words[1::2], strict=True))
            if address and not size & layout.INLINE
        ]
        bound += [_Bound(low, high - low, bool(writable), -1) for low, high, writable in self._regions]
        self._bound = bound
        self._copied: list[_Bound] = []
        shared: dict[Segment, bool] = {}  # one that is written anywhere lies at one place, which is writable
        for each in bound:
            segment = known.find(each.address, each.size) if each.size else None
            if segment is not None:
                shared[segment] = shared.get(segment, False) or each.writable
            elif each.size:
                self._copied.append(each)
        self._shared = [
            _Block(s.address, s.address + s.size, mapper.segment(s, writable) - s.address)
            for s, writable in shared.items()
        ]
        self._ranges = _merged([(b.address, b.address + b.size) for b in self._copied])
        self._gap = _GAP if packed.cells or follows else 0
        self.room = LINE + sum(high - low + self._gap + LINE for low, high in self._ranges)

    @property
    def copies(self) -> bool:
        """Whether anything lies in the arena; arrays without elements do."""
        return bool(self._copied) or any(not each.size for each in self._bound)

    def fill(self, here: int, there: int) -> int:
        """Copy arrays to the arena and settle every address; the first free byte of the arena."""
        at = LINE  # arrays without elements come first
        self._arena = here, there
        copies = []
        for low, high in self._ranges:
            at += (low - at) % LINE
            copy(here + at, low, high - low)
            copies.append(_Block(low, high, there + at - low))
            at += high - low + self._gap
        self._copies = _Blocks(copies)
        self._blocks = _Blocks([*copies, *self._shared])
        for each in self._bound:
            if each.slot >= 0:
                self._words[2 * each.slot] = self._there(each)
        self._data = bytearray(self._packed.data)
        struct.pack_into(f"={2 * self._slots}Q", self._data, 0, *self._words)
        if self._packed.cells:
            self._translate()
        return at

    def _there(self, each: _Bound) -> int:
        """An array without elements lies at the arena's start, where no other does."""
        return self._blocks.there(each.address) if each.size else self._arena[1]

    def _translate(self) -> None:
        """Pointers in tables and argument buffers: the arrays that they lead to lie elsewhere in the worker."""
        starts = {each.address: self._there(each) for each in self._bound if each.slot < 0}
        for cell in self._packed.cells:
            if cell < 0:
                word = struct.unpack_from("=Q", self._data, ~cell)[0]
                struct.pack_into("=Q", self._data, ~cell, starts.get(word, word))
            else:
                place = self._in_arena(cell)
                word = read_word(place)
                write_word(place, starts.get(word, word))

    def _in_arena(self, cell: int) -> int:
        here, there = self._arena
        return self._copies.there(cell) + here - there

    @property
    def data(self) -> bytes:
        """The arguments as mc_call takes them in the worker."""
        return bytes(self._data)

    @property
    def regions(self) -> bytes:
        """What pointers lead to, sorted."""
        found = []
        for each in self._bound:
            if each.slot < 0:
                start = self._there(each)
                found.append((start, start + each.size, int(each.writable)))
        return b"".join(_REGION.pack(*each) for each in sorted(found))

    def copy_back(self) -> None:
        """What the kernel wrote, into the arrays; nothing else of the worker's memory is looked at."""
        here, there = self._arena
        written = [each for each in self._copied if each.writable]
        for each in written:
            copy(each.address, self._there(each) + here - there, each.size)
        for cell in self._packed.cells:
            if cell >= 0 and any(b.address <= cell and cell + 8 <= b.address + b.size for b in written):
                write_word(cell, self._blocks.here(read_word(cell)))


class _Blocks:
    """Ranges of memory that lie apart, looked up by an address."""

    def __init__(self, blocks: list[_Block]) -> None:
        self._blocks = sorted(blocks)
        self._starts = [block.low for block in self._blocks]

    def there(self, address: int) -> int:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._blocks[at].high:
            raise IsolationError(f"a pointer of an argument stands at {address:#x}, which no argument holds")
        return address + self._blocks[at].distance

    def here(self, address: int) -> int:
        """What an address of the worker is in this process; one that is in no array stays what it is."""
        for low, high, distance in self._blocks:
            if low <= address - distance <= high:
                return address - distance
        return address


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Arrays that overlap are one block, so that they overlap in the worker too."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found
