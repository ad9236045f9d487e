"""Asking for the next round's tile while this one is used.

Where simdgroups take turns (cuts.py), loads that fill a tile note what to ask for, and ask at the beginning of the next
turn: there is time until the next round. Why that is quicker than asking beside the loads is not understood
(performance_notes.md). A load in a loop of its own notes one address after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metalcore.engine.ir import I32, I64, PTR, VOID, Block, Instr

from .builder import Builder
from .frame import OWN
from .operands import Operand, constant
from .turns import ends_with_barrier

if TYPE_CHECKING:
    from .addresses import Address
    from .emitters import Emitters

_MOST = 64  # addresses of a turn's loops; a power of two
_SECOND_CACHE = 2  # rows of a tile that lie a page apart would drive each other out of the first one


@dataclass
class Asked:
    is_listed: bool  # among addresses of loops
    offsets: set[int] = field(default_factory=set)  # in bytes, from what is noted


class Asking:
    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.graph, self.plan = at, at.code, at.graph, at.plan
        self._asked: dict[Instr, Asked] = {}

    def ask(self, load: Instr, where: Address, c: int) -> None:
        """Beside a load of chunk c."""
        pointer = self.at.fetching.ahead(where, c, is_load=True)
        if pointer is None:
            return
        assert load.block is not None and where.offsets is not None
        if not self._waits(load.block):
            self.at.streaming.prefetch(pointer, 0)
            return
        asked = self._asked.setdefault(load, Asked(not self._has_barrier(load.block)))
        if c == 0:
            self._note(load, pointer)
        if where.base_of(c) is where.base_of(0):
            asked.offsets.add(where.offsets[c * self.code.width] - where.offsets[0])

    def _waits(self, block: Block) -> bool:
        """Whether every simdgroup runs a block, in a loop with barriers."""
        same = self.plan.same
        if not self.plan.is_cut or self.plan.prefetch or same is None or block in same.once:
            return False
        loop = self.graph.loop_of[block]
        while loop is not None and not any(ends_with_barrier(b) for b in loop.blocks):
            loop = loop.parent
        return loop is not None

    def _has_barrier(self, block: Block) -> bool:
        loop = self.graph.loop_of[block]
        return loop is not None and any(ends_with_barrier(b) for b in loop.blocks)

    def _note(self, load: Instr, pointer: Operand) -> None:
        if not self._asked[load].is_listed:
            self.code.store(pointer, self._own(self.code, ("asked", load), 8))
            return
        counter = self.code.slot("asked", I32)
        count = self.code.load(I32, counter)
        index = self.code.zext(self.code.and_(count, _MOST - 1), I64)
        self.code.store(pointer, self.code.gep(self._own(self.code, "asked", 8 * _MOST), self.code.shl(index, 3)))
        self.code.store(self.code.add(count, 1), counter)

    def _own(self, code: Builder, key: object, size: int) -> Operand:
        """A place in the simdgroup's part of what is kept."""
        own = OWN if self.at.turns.is_one else code.load(PTR, self.at.turns.slot(OWN))
        return code.gep(own, self.at.cuts.room(key, size))

    # -- lines that are written when all is known ----------------------------------------------------
    def _listed(self) -> list[Asked]:
        return [asked for asked in self._asked.values() if asked.is_listed]

    def begin(self) -> list[str]:
        """A turn: nothing is noted."""
        code = Builder("%a", beside=self.code)
        if self._listed():
            code.store(constant(I32, 0), self.code.slot("asked", I32))
        return code.text()

    def end(self, since: set[Block]) -> list[str]:
        """Of a turn that ran these blocks."""
        code = Builder("%a", beside=self.code)
        if any(asked.is_listed and load.block in since for load, asked in self._asked.items()):
            count = code.load(I32, self.code.slot("asked", I32))
            code.store(code.intrinsic("umin", count, constant(I32, _MOST)), self._own(code, "count of asked", 8))
        return code.text()

    def ask_now(self, since: set[Block], number: int, done: str) -> list[str]:
        """What the last turn noted, in these blocks. Ends with a jump."""
        code = Builder("%a", beside=self.code)
        asked = {load: asked for load, asked in self._asked.items() if load.block in since}
        for load, one in asked.items():
            if not one.is_listed:
                self._fetch(code, code.load(PTR, self._own(code, ("asked", load), 8)), one.offsets)
        if any(one.is_listed for one in asked.values()):
            self._ask_list(code, number, done)
        else:
            code.jump(done)
        return code.text()

    def _ask_list(self, code: Builder, number: int, done: str) -> None:
        offsets = {offset for one in self._listed() for offset in one.offsets}
        counter = self.code.slot("asking", I32)
        count = code.load(I32, self._own(code, "count of asked", 8))
        first = self._own(code, "asked", 8 * _MOST)
        code.store(constant(I32, 0), counter)
        code.jump(f"ask.{number}")
        code.place(f"ask.{number}")
        index = code.load(I32, counter)
        code.cond_br(code.icmp("ult", index, count), f"ask.one.{number}", done)
        code.place(f"ask.one.{number}")
        at = code.gep(first, code.shl(code.zext(index, I64), 3))
        self._fetch(code, code.load(PTR, at), offsets)
        code.store(code.add(index, 1), counter)
        code.jump(f"ask.{number}")

    def _fetch(self, code: Builder, first: Operand, offsets: set[int]) -> None:
        for offset in sorted(offsets):
            how = (constant(I32, number) for number in (0, _SECOND_CACHE, 1))
            code.call("llvm.prefetch.p0", VOID, code.gep(first, offset), *how)
