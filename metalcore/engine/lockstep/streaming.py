"""Rows of stores that go past the cache, where a launch writes more than the cache holds.

A store that misses the cache first reads the line that it overwrites: a third or a half of what a kernel that only
moves numbers asks of the memory. The launch says whether that is worth while (is_cached of runtime/native/abi.h); the
address says whether it is possible, since such stores must be aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metalcore.engine.ir import I32, I64, VOID, Block, Instr, anchor_of

from .frame import LAUNCH, of_launch
from .operands import Operand, constant
from .roots import Roots

if TYPE_CHECKING:
    from .emitters import Emitters


CACHE_LINE = 64


def streamed_stores(blocks: Sequence[Block], roots: Roots) -> frozenset[Instr]:
    """Stores to buffers that the kernel does not read, one row in a block: rows written in turns are far slower so.

    With atomics there are none: other threads may wait for a store.
    """
    read: set[int] = set()
    for block in blocks:
        for instr in block.instrs:
            if instr.op in ("atomicrmw", "cmpxchg") or instr.extra.get("atomic") or instr.callee == "__mc_fence":
                return frozenset()
            if instr.op in ("load", "call"):
                read |= _slots(instr.args, roots)
    found: set[Instr] = set()
    for block in blocks:
        stores = []
        for instr in block.instrs:
            slots = _slots(instr.args[1:], roots) if instr.op == "store" else set()
            if slots and not slots & read:
                stores.append(instr)
        if len({anchor_of(store.args[1])[0] for store in stores}) == 1:  # fields of one record are one row
            found.update(stores)
    return frozenset(found)


def _slots(values: Iterable[object], roots: Roots) -> set[int]:
    return {r.slot for value in values if isinstance(value, Instr) for r in roots.get(value) if r.kind == "buffer"}


@dataclass
class Row:
    """Stores side by side."""

    align: int  # of each, as far as the program says
    parts: list[tuple[Operand, Operand]] = field(default_factory=list)  # value, pointer
    size: int = CACHE_LINE  # a power of two that the bytes of every part are a multiple of
    end: int = -1  # where the next part would go
    ahead: list[Operand | None] = field(default_factory=list)  # pointers to what will be written soon

    def add(self, value: Operand, pointer: Operand, offset: int, size: int) -> None:
        self.parts.append((value, pointer))
        self.size, self.end = min(self.size, size & -size), offset + size


class Streaming:
    def __init__(self, at: Emitters) -> None:
        self.code, self.plan = at.code, at.plan

    def store_row(self, instr: Instr, row: Row) -> None:
        if not row.parts:
            return
        if instr not in self.plan.streamed or row.size < 16:
            self._store_parts(row, row.align, row.ahead)
            return
        past, through, done = (self.code.new_label(x) for x in ("past", "through", "done"))
        number = self.code.ptrtoint(row.parts[0][1])
        off = self.code.and_(number, row.size - 1)
        either = self.code.or_(off, self._is_cached())
        test = self.code.icmp("eq", either, 0)
        self.code.cond_br(test, past, through)
        self.code.place(past)
        self._store_parts(row, row.size, (), nontemporal=True)
        self.code.jump(done)
        self.code.place(through)
        self._store_parts(row, row.align, row.ahead)
        self.code.jump(done)
        self.code.place(done)

    def _is_cached(self) -> Operand:
        key = ("launch", "is_cached")
        if key not in self.code.entry_values:
            at = self.code.entry.gep(LAUNCH, of_launch("is_cached"))
            self.code.entry_values[key] = self.code.entry.load(I64, at, invariant=True)
        return self.code.entry_values[key]

    def prefetch(self, pointer: Operand | None, is_store: int) -> None:
        if pointer is not None:
            how = (constant(I32, number) for number in (is_store, 3, 1))
            self.code.call("llvm.prefetch.p0", VOID, pointer, *how)

    def _store_parts(self, row: Row, align: int, ahead: Sequence[Operand | None], nontemporal: bool = False) -> None:
        for pointer in ahead:
            self.prefetch(pointer, 1)
        for value, pointer in row.parts:
            self.code.store(value, pointer, align, nontemporal=nontemporal)
