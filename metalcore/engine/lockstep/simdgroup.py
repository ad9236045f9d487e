"""The function that runs one simdgroup: its frame, barriers as coroutine suspensions, polls of the stop word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metalcore.engine.abi import FRAME_ALIGN
from metalcore.engine.ir import I8, I32, I64, PTR, TOKEN, VOID, quoted
from metalcore.engine.model import LANES

from .bit_mask import BitMask
from .builder import Builder
from .frame import (
    ALONE,
    BITS,
    FIRST,
    FIRST_THREAD,
    GROUP,
    LAUNCH,
    PRIVATE,
    SIMDGROUP,
    SIZE,
    WORKER,
    load_frame,
    of_launch,
    of_sanitizer,
    of_worker,
    parameters,
)
from .operands import FALSE, NO_TOKEN, NULL, TRUE, constant

if TYPE_CHECKING:
    from .emitters import Emitters

# None is destroyed while it waits, so LLVM writes the body once, not once more for each way to destroy it.
_COROUTINE = " presplitcoroutine coro_only_destroy_when_complete"


class Simdgroup:
    """One simdgroup function: `full` with all 32 lanes, or the one for a partial simdgroup."""

    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.plan = at, at.code, at.values, at.graph, at.plan

    def write(self, name: str, full: bool) -> str:
        self.at.products.place_homes()
        self.at.proofs.is_full = full
        if full:
            blocks = self.at.regions.full_blocks()
            self.at.flow.full = set(blocks)
            start = quoted(self.at.flow.full_label(self.graph.entry))
            for block in blocks:
                self.at.flow.full_block(block)
            self.at.loop_copies.write(blocks)
            if self.at.partial.is_used:
                self.at.partial.write_region(self.at.partial.whole)
        else:
            start = self.partial_entry()
            self.at.partial.write_region(self.at.partial.whole)
        self.at.proofs.finish()
        blank = [
            f"  store {ty} zeroinitializer, ptr {name}"
            for key, (name, ty) in self.code.slots.items()
            if isinstance(key, tuple) and key[0] in self.values.blank
        ]
        return self.at.cuts.assemble(name, start, blank) if self.plan.is_cut else self.assemble(name, start, blank)

    def partial_entry(self) -> str:
        self.code.place("P.start")
        self.values.enter(self.graph.entry)
        for node in self.graph.order:
            self.at.masks.set(self.at.partial.whole, node, False, False)
            if self.at.regions.is_header(node):
                self.at.masks.set(self.at.partial.whole, node, True, False)
        self.at.masks.set(self.at.partial.whole, self.graph.entry, False, BitMask(self.values, BITS))
        self.code.jump(self.at.partial.label_of(self.at.partial.whole, None, self.graph.entry))
        return "P.start"

    def assemble(self, name: str, start: str, blank: list[str]) -> str:
        coroutine = self.plan.coroutine
        head, tail = Builder("%h"), Builder("%x")
        tokens = _Coroutine(head, tail) if coroutine else None
        load_frame(head)
        head.as_(FIRST_THREAD).mul(SIMDGROUP, LANES)
        if tokens:
            tokens.begin(self.at.addresses.private_total)
        enter = Builder("%b")
        if tokens:
            # Wait before the first instruction: LLVM then keeps one copy of the body, in the function that resumes.
            enter.switch(enter.call("llvm.coro.suspend", I8, NO_TOKEN, FALSE), "suspend", {0: start, 1: "cleanup"})
        else:
            enter.jump(start)
        tail.place("exit")
        if self.plan.sanitized:
            sanitizer = tail.load(PTR, tail.gep(LAUNCH, of_launch("sanitizer")))
            end = tail.load(PTR, tail.gep(sanitizer, of_sanitizer("end_simdgroup")))
            tail.call_pointer(end, VOID, sanitizer, SIMDGROUP)
        if tokens:
            tokens.end()
        else:
            tail.ret()
        given = parameters(LAUNCH, WORKER, *GROUP, *SIZE, SIMDGROUP, BITS, ALONE, *FIRST)
        lines = [
            f"define internal {PTR if coroutine else VOID} @{name}({given})"
            f"{_COROUTINE if coroutine else ''} #0 {{",
            "entry:",
            *self.code.alloca_lines,
            *head.text(),
            *blank,
            *self.code.entry.text(),
            *enter.text(),
            *self.code.text(),
            *tail.text(),
            "}",
        ]
        return "\n".join(lines)


class _Coroutine:
    """The frame of one: memory from the worker's arena, or a new block of it."""

    def __init__(self, head: Builder, tail: Builder) -> None:
        self.head, self.tail = head, tail

    def begin(self, private: int) -> None:
        code = self.head
        self.id = code.call("llvm.coro.id", TOKEN, constant(I32, 128), NULL, NULL, NULL)
        size = code.call("llvm.coro.size.i64", I64)
        size = code.and_(code.add(size, FRAME_ALIGN - 1), -FRAME_ALIGN)
        current_at, end_at = (code.gep(WORKER, of_worker(field)) for field in ("frame_cur", "frame_end"))
        current, end = code.load(PTR, current_at), code.load(PTR, end_at)
        all_bytes = code.add(size, private)
        following = code.gep(current, all_bytes)
        code.cond_br(code.icmp("ule", following, end), "have", "grow", likely=True)
        code.place("grow")
        grow = code.load(PTR, code.gep(LAUNCH, of_launch("grow_frames")))
        grown = code.call_pointer(grow, PTR, WORKER, all_bytes)
        code.cond_br(code.icmp("eq", grown, NULL), "absent", "begin", likely=False)
        code.place("absent")
        code.ret(NULL)
        code.place("have")
        code.store(following, current_at)
        code.jump("begin")
        code.place("begin")
        block = code.phi((current, "have"), (grown, "grow"))
        self.frame = code.call("llvm.coro.begin", PTR, self.id, block, how="noalias ")
        code.as_(PRIVATE).gep(block, size)

    def end(self) -> None:
        code = self.tail
        final = code.call("llvm.coro.suspend", I8, NO_TOKEN, TRUE)
        code.switch(final, "suspend", {0: "trap", 1: "cleanup"})
        code.place("trap")
        code.unreachable()
        code.place("cleanup")
        code.call("llvm.coro.free", PTR, self.id, self.frame)
        code.jump("suspend")
        code.place("suspend")
        code.call("llvm.coro.end", VOID, self.frame, FALSE, NO_TOKEN)
        code.ret(self.frame)
