"""The function that runs one simdgroup: its frame, barriers as coroutine suspensions, polls of the stop word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .flow import quoted
from .memory import LAUNCH_GROW, LAUNCH_STOP, WORKER_FRAME_CUR, WORKER_FRAME_END, WORKER_MEMORY
from .watch import HOOK_OFFSET, LAUNCH_SANITIZER

if TYPE_CHECKING:
    from .emitters import Emitters

_PARAMS = (
    "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d, i32 %sg, i32 %bits, i1 %alone, "
    "i32 %lx, i32 %ly, i32 %lz"
)


class Simdgroup:
    """One simdgroup function: `full` with all 32 lanes, or the one for a partial simdgroup."""

    def __init__(self, at: Emitters) -> None:
        self.at, self.code, self.values, self.graph, self.plan = at, at.code, at.values, at.graph, at.plan

    def write(self, name: str, full: bool) -> str:
        self.at.matrix.place_homes()
        if full:
            blocks = self.at.flow.full_blocks()
            self.at.flow.full = set(blocks)
            start = quoted(self.at.flow.full_label(self.graph.entry))
            for block in blocks:
                self.at.flow.full_block(block)
            if self.at.flow.uses_partial:
                self.at.flow.write_region(self.at.flow.partial)
        else:
            start = self.partial_entry()
            self.at.flow.write_region(self.at.flow.partial)
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
            self.at.flow.set_mask(self.at.flow.partial, node, False, "zeroinitializer")
            if self.at.flow.is_header(node):
                self.at.flow.set_mask(self.at.flow.partial, node, True, "zeroinitializer")
        self.at.flow.set_mask(self.at.flow.partial, self.graph.entry, False, self.code.from_bits("%bits"))
        self.code.jump(self.at.flow.label_of(self.at.flow.partial, None, self.graph.entry))
        return "P.start"

    def assemble(self, name: str, start: str, blank: list[str]) -> str:
        coroutine = self.plan.coroutine
        head = [
            f"define internal {'ptr' if coroutine else 'void'} @{name}({_PARAMS})"
            f"{' presplitcoroutine' if coroutine else ''} #0 {{",
            "entry:",
            *self.code.alloca_lines,
        ]
        head += [
            f"  %memory_at = getelementptr i8, ptr %Wk, i64 {WORKER_MEMORY}",
            "  %group_memory = load ptr, ptr %memory_at, !invariant.load !0",
            f"  %stop_at = getelementptr i8, ptr %L, i64 {LAUNCH_STOP}",
            "  %stop = load ptr, ptr %stop_at, !invariant.load !0",
            "  %first_thread = mul i32 %sg, 32",
        ]
        tail = ["exit:"]
        if self.plan.sanitized:
            tail += end_of_simdgroup()
        if coroutine:
            head += _coroutine_head(self.at.memory.private_total)
            tail += [
                "  %final = call i8 @llvm.coro.suspend(token none, i1 true)",
                "  switch i8 %final, label %suspend [i8 0, label %trap i8 1, label %cleanup]",
                "trap:",
                "  unreachable",
                "cleanup:",
                "  %freed = call ptr @llvm.coro.free(token %id, ptr %frame)",
                "  br label %suspend",
                "suspend:",
                "  call void @llvm.coro.end(ptr %frame, i1 false, token none)",
                "  ret ptr %frame",
                "}",
            ]
        else:
            tail += ["  ret void", "}"]
        enter = [f"  br label %{start}"]
        if coroutine:
            # Wait before the first instruction: LLVM then keeps one copy of the body, in the function that resumes.
            enter = [
                "  %begun = call i8 @llvm.coro.suspend(token none, i1 false)",
                f"  switch i8 %begun, label %suspend [i8 0, label %{start} i8 1, label %cleanup]",
            ]
        return "\n".join([*head, *blank, *self.code.entry_lines, *enter, *self.code.text(), *tail])


def end_of_simdgroup() -> list[str]:
    return [
        f"  %ended_at = getelementptr i8, ptr %L, i64 {LAUNCH_SANITIZER}",
        "  %ended = load ptr, ptr %ended_at",
        f"  %end_fn_at = getelementptr i8, ptr %ended, i64 {HOOK_OFFSET['end_simdgroup']}",
        "  %end_fn = load ptr, ptr %end_fn_at",
        "  call void %end_fn(ptr %ended, i32 %sg)",
    ]


def _coroutine_head(private: int) -> list[str]:
    return [
        "  %id = call token @llvm.coro.id(i32 128, ptr null, ptr null, ptr null)",
        "  %frame_size = call i64 @llvm.coro.size.i64()",
        "  %frame_more = add i64 %frame_size, 127",
        "  %frame_bytes = and i64 %frame_more, -128",
        f"  %cur_at = getelementptr i8, ptr %Wk, i64 {WORKER_FRAME_CUR}",
        f"  %end_at = getelementptr i8, ptr %Wk, i64 {WORKER_FRAME_END}",
        "  %cur = load ptr, ptr %cur_at",
        "  %end = load ptr, ptr %end_at",
        f"  %all_bytes = add i64 %frame_bytes, {private}",
        "  %next = getelementptr i8, ptr %cur, i64 %all_bytes",
        "  %fits = icmp ule ptr %next, %end",
        "  br i1 %fits, label %have, label %grow, !prof !1",
        "grow:",
        f"  %grow_at = getelementptr i8, ptr %L, i64 {LAUNCH_GROW}",
        "  %grow_fn = load ptr, ptr %grow_at",
        "  %grown = call ptr %grow_fn(ptr %Wk, i64 %all_bytes)",
        "  %no_memory = icmp eq ptr %grown, null",
        "  br i1 %no_memory, label %absent, label %begin, !prof !2",
        "absent:",
        "  ret ptr null",
        "have:",
        "  store ptr %next, ptr %cur_at",
        "  br label %begin",
        "begin:",
        "  %block = phi ptr [ %cur, %have ], [ %grown, %grow ]",
        "  %frame = call noalias ptr @llvm.coro.begin(token %id, ptr %block)",
        "  %private = getelementptr i8, ptr %block, i64 %frame_bytes",
    ]
