"""Rows of stores that go past the cache, where a launch writes more than the cache holds.

A store that misses the cache first reads the line that it overwrites: a third or a half of what a kernel that only
moves numbers asks of the memory. The launch says whether that is worth while (is_cached of runtime/native/abi.h); the
address says whether it is possible, since such stores must be aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ir import Block, Instr, anchor_of
from .roots import Roots

if TYPE_CHECKING:
    from .emitters import Emitters


LAUNCH_IS_CACHED = 912  # offset in mc_launch of runtime/native/abi.h
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
    parts: list[tuple[str, str]] = field(default_factory=list)  # typed value, pointer
    size: int = CACHE_LINE  # a power of two that the bytes of every part are a multiple of
    end: int = -1  # where the next part would go
    ahead: list[str] = field(default_factory=list)  # pointers to what will be written soon, or ""

    def add(self, value: str, pointer: str, offset: int, size: int) -> None:
        self.parts.append((value, pointer))
        self.size, self.end = min(self.size, size & -size), offset + size


class Streaming:
    def __init__(self, at: Emitters) -> None:
        self.code, self.plan = at.code, at.plan

    def store_row(self, instr: Instr, row: Row) -> None:
        if not row.parts:
            return
        if instr not in self.plan.streamed or row.size < 16:
            self._store_parts(row, f"align {row.align}", row.ahead)
            return
        past, through, done = (self.code.new_label(x) for x in ("past", "through", "done"))
        number = self.code.temp(f"ptrtoint ptr {row.parts[0][1]} to i64")
        off = self.code.temp(f"and i64 {number}, {row.size - 1}")
        either = self.code.temp(f"or i64 {off}, {self._is_cached()}")
        test = self.code.temp(f"icmp eq i64 {either}, 0")
        self.code.emit(f"br i1 {test}, label %{past}, label %{through}")
        self.code.place(past)
        self._store_parts(row, f"align {row.size}, !nontemporal !3", ())
        self.code.jump(done)
        self.code.place(through)
        self._store_parts(row, f"align {row.align}", row.ahead)
        self.code.jump(done)
        self.code.place(done)

    def _is_cached(self) -> str:
        key = ("launch", "is_cached")
        if key not in self.code.entry_values:
            at = self.code.at_entry(f"getelementptr i8, ptr %L, i64 {LAUNCH_IS_CACHED}")
            self.code.entry_values[key] = self.code.at_entry(f"load i64, ptr {at}, !invariant.load !0")
        return self.code.entry_values[key]

    def prefetch(self, pointer: str, is_store: int) -> None:
        if pointer:
            self.code.need("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            self.code.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {is_store}, i32 3, i32 1)")

    def _store_parts(self, row: Row, how: str, ahead: Sequence[str]) -> None:
        for pointer in ahead:
            self.prefetch(pointer, 1)
        for value, pointer in row.parts:
            self.code.emit(f"store {value}, ptr {pointer}, {how}")
