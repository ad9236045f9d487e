"""Rows of stores that go past the cache, where a launch writes more than the cache holds.

A store that misses the cache first reads the line that it overwrites: a third or a half of what a kernel that only
moves numbers asks of the memory. The launch says whether that is worth while (is_cached of runtime/native/abi.h); the
address says whether it is possible, since such stores must be aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .chunked import Chunked
from .ir import Block, Instr
from .roots import Roots
from .shapes import anchor_of

if TYPE_CHECKING:
    from .simdgroup import Plan

LAUNCH_IS_CACHED = 912  # offset in mc_launch of runtime/native/abi.h
_LINE = 64


def streamed_stores(blocks: Sequence[Block], roots: Roots) -> frozenset[Instr]:
    """Stores to buffers that the kernel does not read, one row in a block: rows written in turns are far slower so.

    With atomics there are none: other threads may wait for a store.
    """
    read: set[int] = set()
    for block in blocks:
        for instr in block.instrs:
            if instr.op in ("atomicrmw", "cmpxchg", "fence"):
                return frozenset()
            if instr.op in ("load", "call"):
                read |= _slots(instr.args, roots)
    found: set[Instr] = set()
    for block in blocks:
        stores = [i for i in block.instrs if i.op == "store" and _slots(i.args[1:], roots) - read]
        if len({anchor_of(store.args[1])[0] for store in stores}) == 1:  # fields of one record are one row
            found.update(stores)
    return frozenset(found)


def _slots(values: Iterable[object], roots: Roots) -> set[int]:
    return {r.slot for value in values if isinstance(value, Instr) for r in roots.get(value) if r.kind == "buffer"}


class Streaming(Chunked):
    plan: Plan

    def store_row(
        self, instr: Instr, parts: list[tuple[str, str]], align: int, size: int, ahead: Sequence[str] = ()
    ) -> None:
        """Stores (typed value, pointer) of *size* bytes each, side by side; *ahead*: where more will be written."""
        aligned = min(size, _LINE)
        if instr not in self.plan.streamed or aligned < 16:
            self._store_parts(parts, f"align {align}", ahead)
            return
        past, through, done = (self.new_label(x) for x in ("past", "through", "done"))
        number = self.temp(f"ptrtoint ptr {parts[0][1]} to i64")
        off = self.temp(f"and i64 {number}, {aligned - 1}")
        either = self.temp(f"or i64 {off}, {self._is_cached()}")
        test = self.temp(f"icmp eq i64 {either}, 0")
        self.emit(f"br i1 {test}, label %{past}, label %{through}")
        self.place(past)
        self._store_parts(parts, f"align {aligned}, !nontemporal !3", ())
        self.jump(done)
        self.place(through)
        self._store_parts(parts, f"align {align}", ahead)
        self.jump(done)
        self.place(done)

    def _is_cached(self) -> str:
        key = ("launch", "is_cached")
        if key not in self.entry_values:
            at = self.at_entry(f"getelementptr i8, ptr %L, i64 {LAUNCH_IS_CACHED}")
            self.entry_values[key] = self.at_entry(f"load i64, ptr {at}, !invariant.load !0")
        return self.entry_values[key]

    def prefetch(self, pointer: str, is_store: int) -> None:
        if pointer:
            self.need("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {is_store}, i32 3, i32 1)")

    def _store_parts(self, parts: list[tuple[str, str]], how: str, ahead: Sequence[str]) -> None:
        for pointer in ahead:
            self.prefetch(pointer, 1)
        for value, pointer in parts:
            self.emit(f"store {value}, ptr {pointer}, {how}")
