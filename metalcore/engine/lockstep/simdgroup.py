"""The function that runs one simdgroup: its frame, barriers as coroutine suspensions, polls of the stop word."""

from __future__ import annotations

from dataclasses import dataclass, field

from metalcore.engine.codegen.variant import PRIVATE, TABLE, Site
from metalcore.engine.names import plain_name

from .bounds import Bounds
from .cfg import Graph
from .counts import count_of
from .flow import Linear, quoted
from .homes import Home
from .ids import Ids
from .ir import Block, Instr, Module, Value
from .live import Liveness
from .memory import LAUNCH_GROW, LAUNCH_STOP, WORKER_FRAME_CUR, WORKER_FRAME_END, WORKER_MEMORY, Address
from .polls import ROUNDS, SHORT_BODY
from .roots import Root, Roots
from .shapes import Shape, Shapes
from .values import scalar_type
from .watch import HOOK_OFFSET, LAUNCH_SANITIZER

_PARAMS = (
    "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d, i32 %sg, i32 %bits, i1 %alone, "
    "i32 %lx, i32 %ly, i32 %lz"
)


@dataclass
class Plan:
    """What all parts of the emitter need to know about the kernel and the variant."""

    layout: str
    single: bool
    checked: bool
    sanitized: bool
    ids: dict[tuple[str, int], Shape]
    bounds: Bounds
    users: dict[Instr, list[Instr]]
    shared_offsets: dict[str, int]
    module: Module
    live: Liveness
    homes: dict[Value, Home]
    coroutine: bool = False
    is_large: bool = False  # accesses under masks are calls
    prefetch: bool = False  # ask early for what the next simdgroups read and write
    streamed: frozenset[Instr] = frozenset()  # stores whose rows may go past the cache
    uses_slow: bool = False
    uses_mma: bool = False
    sites: list[Site] = field(default_factory=list)
    site_numbers: dict[tuple[Instr, int, frozenset[Root]], int] = field(default_factory=dict)
    known_sites: dict[Site, int] = field(default_factory=dict)
    tables: dict[tuple[int, ...], str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)

    def site(self, instr: Instr, where: Address, kind: int) -> int:
        """Number of an access in the table that error messages are made from."""
        key = (instr, kind, where.roots)
        if key not in self.site_numbers:
            place = self.module.locations.get(instr.line)
            buffer: int | str | None = None
            if len(where.roots) == 1:
                root = next(iter(where.roots))
                buffer = root.slot if root.kind == "buffer" else root.name.lstrip("@%") or f"threadgroup({root.slot})"
                if root.kind == "private":
                    buffer = PRIVATE + root.name.lstrip("%").partition(".")[0]
                elif root.kind == "table":
                    buffer = TABLE + plain_name(root.name)
                elif root.kind == "unknown":
                    buffer = None
            self.site_numbers[key] = self._number(
                Site(
                    place.file if place else "",
                    place.line if place else 0,
                    place.column if place else 0,
                    ("load", "store", "atomic", "atomic")[kind],
                    buffer,
                    where.size,
                )
            )
        return self.site_numbers[key]

    def bare_site(self, instr: Instr, what: str) -> int:
        """Number of a barrier or shuffle in the same table."""
        place = self.module.locations.get(instr.line)
        where = (place.file, place.line, place.column) if place else ("", 0, 0)
        return self._number(Site(*where, what, None, 0))

    def _number(self, site: Site) -> int:
        """The same line is often written several times: it is one site."""
        if site not in self.known_sites:
            self.known_sites[site] = len(self.sites)
            self.sites.append(site)
        return self.known_sites[site]

    def offset_table(self, offsets: tuple[int, ...]) -> str:
        return self.tables.setdefault(offsets, f"@mc.offsets.{len(self.tables)}")


class Simdgroup(Ids):
    """One simdgroup function: `full` with all 32 lanes, or the one for a partial simdgroup."""

    def __init__(self, module: Module, graph: Graph, shapes: Shapes, roots: Roots, width: int, plan: Plan) -> None:
        super().__init__(module, graph, shapes, roots, width)
        self.plan = plan
        self.regions = 0
        self.copies_left = max(100, self.region_cost(set(graph.order)))
        self.uses_partial = False
        self.full: set[Block] = set()
        self._find_polls()
        self.partial = Linear("P", set(graph.order), None, None, "exit")

    def _find_polls(self) -> None:
        self.polled, self.counts = set(), {}
        for loop in self.graph.loops:
            count = count_of(loop, self.shapes)
            rounds = count.most_rounds(self.plan.bounds.ranges) if count is not None else None
            if rounds is not None and rounds <= ROUNDS:
                continue
            self.polled.add(loop.header)
            if count is None or self.plan.sanitized or self.region_cost(loop.blocks) > SHORT_BODY:
                continue
            if count.fits(loop.latch in self.shapes.divergent_branches):
                self.counts[loop.header] = count

    def need(self, declaration: str) -> None:
        # One spelling: LLVM refuses to see an intrinsic declared twice, and knows its immediate arguments itself.
        self.plan.declarations.add(declaration.replace(" immarg", ""))

    def barrier(self, instr: Instr, kind: str) -> None:
        if self.plan.sanitized:
            self.watch_barrier(instr, kind)
        if kind == "threadgroup_barrier" and self.plan.coroutine:
            # One simdgroup alone has nobody to wait for. The second way in also keeps LLVM from moving work behind
            # the barrier.
            self.flush()
            self._settle(instr)
            resume, wait = self.new_label("resume"), self.new_label("wait")
            self.emit(f"br i1 %alone, label %{resume}, label %{wait}")
            self.place(wait)
            state = self.temp("call i8 @llvm.coro.suspend(token none, i1 false)")
            self.emit(f"switch i8 {state}, label %suspend [i8 0, label %{resume} i8 1, label %cleanup]")
            self.place(resume)
        elif kind != "fence":
            self.emit('fence syncscope("singlethread") seq_cst')

    def _settle(self, barrier: Instr) -> None:
        """Finish what lives across a barrier in front of it: LLVM saves a value where it is made, be it in a loop."""
        for value in self.plan.live.across(barrier):
            if not self.shapes.get(value).varying or value.type.is_aggregate or value not in self.crossing:
                continue
            if value in self.plan.homes:
                continue
            ty = scalar_type(value.type)
            bits = 32 if ty == "i1" else value.type.bits
            if ty == "ptr" or self.width * bits % 32:
                continue
            for c in range(self.count):
                slot_type = "i32" if ty == "i1" else ty
                old = self.load_slot((value, c), self.vec(slot_type))
                self.store_slot((value, c), self.vec(slot_type), self.fenced(slot_type, bits, old))
                self.vectors.pop((value, c), None)

    def finish(self) -> None:
        self.jump("exit")

    def write(self, name: str, full: bool) -> str:
        self.place_homes()
        if full:
            blocks = self.full_blocks()
            self.full = set(blocks)
            start = quoted(self.full_label(self.graph.entry))
            for block in blocks:
                self.full_block(block)
            if self.uses_partial:
                self.write_region(self.partial)
        else:
            start = self.partial_entry()
            self.write_region(self.partial)
        return self.assemble(name, start)

    def partial_entry(self) -> str:
        self.place("P.start")
        self.enter(self.graph.entry)
        for node in self.graph.order:
            self.set_mask(self.partial, node, False, "zeroinitializer")
            if self.is_header(node):
                self.set_mask(self.partial, node, True, "zeroinitializer")
        self.set_mask(self.partial, self.graph.entry, False, self.from_bits("%bits"))
        self.jump(self.label_of(self.partial, None, self.graph.entry))
        return "P.start"

    def assemble(self, name: str, start: str) -> str:
        coroutine = self.plan.coroutine
        head = [
            f"define internal {'ptr' if coroutine else 'void'} @{name}({_PARAMS})"
            f"{' presplitcoroutine' if coroutine else ''} #0 {{",
            "entry:",
            *self.alloca_lines,
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
            head += _coroutine_head(self.private_total)
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
        blank = [
            f"  store {ty} zeroinitializer, ptr {name}"
            for key, (name, ty) in self.slots.items()
            if isinstance(key, tuple) and key[0] in self.blank
        ]
        return "\n".join([*head, *blank, *self.entry_lines, *enter, *self.lines, *tail])


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
