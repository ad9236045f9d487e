"""A whole kernel: simdgroup functions, the loop over simdgroups and threadgroups, barriers as coroutine suspensions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metalcore.engine.codegen.variant import Site, ThreadgroupVariable

from .cfg import Graph, canonicalise
from .flow import Linear, quoted
from .homes import Home, find_homes
from .ids import Ids, id_shapes
from .ir import Block, Const, Global, Instr, Module, Value
from .live import Liveness
from .memory import (
    LAUNCH_GROW,
    LAUNCH_SLOW,
    LAUNCH_STOP,
    WORKER_FRAME_CUR,
    WORKER_FRAME_END,
    WORKER_GROUP_POS,
    WORKER_MEMORY,
    Address,
)
from .ops import division_function
from .parse import parse
from .ranges import Ranges
from .roots import Roots, expand_block_copies, split_pairs
from .shapes import Shape, Shapes
from .support import SUPPORT, mma_function
from .values import scalar_type

_PARAMS = (
    "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d, i32 %sg, i32 %bits, i1 %alone, "
    "i32 %lx, i32 %ly, i32 %lz"
)


@dataclass
class LockstepModule:
    """Vector IR as text, and what the host must know about it."""

    ir: str
    sites: tuple[Site, ...]
    static_threadgroup_memory: int
    threadgroup_variables: tuple[ThreadgroupVariable, ...]
    written: tuple[int, ...]
    has_loops: bool


@dataclass
class Plan:
    """What all parts of the emitter need to know about the kernel and the variant."""

    layout: str
    single: bool
    checked: bool
    value_sizes: dict[int, int]  # slots bound to `constant T&`: the host has checked that many bytes
    ids: dict[tuple[str, int], Shape]
    ranges: Ranges
    users: dict[Instr, list[Instr]]
    shared_offsets: dict[str, int]
    module: Module
    live: Liveness
    homes: dict[Value, Home]
    coroutine: bool = False
    prefetch: bool = False  # ask early for what the next simdgroups read and write
    uses_slow: bool = False
    uses_mma: bool = False
    sites: list[Site] = field(default_factory=list)
    site_numbers: dict[tuple[object, int], int] = field(default_factory=dict)
    tables: dict[tuple[int, ...], str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)

    def site(self, instr: Instr, where: Address, kind: int) -> int:
        """Number of an access in the table that error messages are made from."""
        key = (instr, kind)
        if key not in self.site_numbers:
            place = self.module.locations.get(instr.line)
            buffer: int | str | None = None
            if len(where.roots) == 1:
                root = next(iter(where.roots))
                buffer = root.slot if root.kind == "buffer" else root.name.lstrip("@%") or f"threadgroup({root.slot})"
                if root.kind == "unknown":
                    buffer = None
            self.site_numbers[key] = len(self.sites)
            self.sites.append(
                Site(
                    place.file if place else "",
                    place.line if place else 0,
                    place.column if place else 0,
                    ("load", "store", "atomic")[kind],
                    buffer,
                    where.size,
                )
            )
        return self.site_numbers[key]

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
        self.polled = {loop.header for loop in graph.loops if needs_poll(loop, shapes)}
        self.partial = Linear("P", set(graph.order), None, None, "exit")

    def need(self, declaration: str) -> None:
        # One spelling: LLVM refuses to see an intrinsic declared twice, and knows its immediate arguments itself.
        self.plan.declarations.add(declaration.replace(" immarg", ""))

    def barrier(self, instr: Instr, kind: str) -> None:
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

    def poll(self, block: Block) -> None:
        """Ctrl-C must stop a loop that does not end by itself."""
        if block not in self.polled:
            return
        flag = self.temp("load volatile i32, ptr %stop")
        stop = self.temp(f"icmp ne i32 {flag}, 0")
        go_on = self.new_label("poll")
        self.emit(f"br i1 {stop}, label %exit, label %{go_on}, !prof !2")
        self.place(go_on)

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
        return "\n".join([*head, *self.entry_lines, *enter, *self.lines, *tail])


def needs_poll(loop: object, shapes: Shapes) -> bool:
    """An innermost loop that counts to a bound ends soon enough; any other one asks whether to stop."""
    from .cfg import Loop

    assert isinstance(loop, Loop)
    if loop.children:
        return True
    latch = loop.latch.terminator
    exits = loop.exits()
    if len(exits) != 1 or exits[0][0] is not loop.latch or not latch.args:
        return True
    test = latch.args[0]
    if not isinstance(test, Instr) or test.op != "icmp":
        return True
    steps = 0
    for side in test.args:
        if isinstance(side, Instr) and side.block in loop.blocks:
            base = side.args[0] if side.op == "add" and _surely_positive(side.args[1]) else side
            if not (isinstance(base, Instr) and base.op == "phi" and base.block is loop.header):
                return True
            steps += 1
    return steps != 1


def _surely_positive(step: Value) -> bool:
    """A step that is not zero: a constant, or the size of a group or a grid."""
    if isinstance(step, Const):
        return step.value not in (None, 0)
    if isinstance(step, Instr) and step.op in ("zext", "sext"):
        return _surely_positive(step.args[0])
    if isinstance(step, Instr) and step.op in ("mul", "shl") and isinstance(step.args[1], Const):
        return _surely_positive(step.args[0]) and step.args[1].value not in (None, 0)
    return isinstance(step, Instr) and step.callee in (
        "__mc_threads_per_threadgroup",
        "__mc_threads_per_grid",
        "__mc_dispatch_threads_per_threadgroup",
    )


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
        "  br label %begin",
        "have:",
        "  store ptr %next, ptr %cur_at",
        "  br label %begin",
        "begin:",
        "  %block = phi ptr [ %cur, %have ], [ %grown, %grow ]",
        "  %frame = call noalias ptr @llvm.coro.begin(token %id, ptr %block)",
        "  %private = getelementptr i8, ptr %block, i64 %frame_bytes",
    ]


def _first_position(layout: str) -> str:
    """Position in the group of a simdgroup's first thread, where rows are whole simdgroups."""
    if layout != "rows":
        return "\n".join(f"  %l{axis} = add i32 0, 0" for axis in "xyz")
    return """  %first = shl i32 %sg, 5
  %flat = udiv i32 %first, %w
  %flat_w = mul i32 %flat, %w
  %lx = sub i32 %first, %flat_w
  %lz = udiv i32 %flat, %h
  %lz_h = mul i32 %lz, %h
  %ly = sub i32 %flat, %lz_h"""


# What a thread may ask for and still not notice in which threadgroup it is.
_GROUP_FREE = {
    f"__mc_{name}"
    for name in (
        *("thread_position_in_grid", "threads_per_grid", "threadgroups_per_grid"),
        *("thread_index_in_simdgroup", "threads_per_simdgroup", "thread_index_in_quadgroup"),
        *("threads_per_threadgroup", "dispatch_threads_per_threadgroup"),
    )
}
# Threads that are run in one go where threadgroups make no difference, with and without loops; then comes a look at
# whether to stop.
_SPAN = {True: 1 << 13, False: 1 << 17}
# A kernel with so many instructions keeps a processor from looking ahead to the loads of the next simdgroups.
_LONG_BODY = 16


def _knows_its_group(instr: Instr) -> bool:
    """Whether an instruction gives another answer when neighbouring threadgroups are run as one."""
    names = ("threadgroup", "simdgroup_index", "quadgroup_index")
    return (
        instr.op == "call"
        and instr.callee.startswith("__mc_")
        and instr.callee not in _GROUP_FREE
        and any(name in instr.callee for name in names)
    )


def _driver(coroutine: bool, tail: bool, layout: str, span_threads: int) -> str:
    """mc_run: every threadgroup of a row, every simdgroup of a threadgroup.

    Where *span_threads* is given, whole threadgroups side by side are one long loop over simdgroups.
    """
    args = "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d"
    last = "i1 %alone, i32 %lx, i32 %ly, i32 %lz"
    position = _first_position(layout)
    if coroutine:
        frame = f"""
  %saved_cur = load ptr, ptr %cur_at
  br label %start
start:
  %sg = phi i32 [ 0, %group ], [ %sg.next, %start.done ]
  %is_full = icmp ult i32 %sg, %full
  %at = getelementptr ptr, ptr %handles, i32 %sg
{position}
  br i1 %is_full, label %start.full, label %start.part
start.full:
  %hf = call ptr @simdgroup.full({args}, i32 %sg, i32 -1, {last})
  store ptr %hf, ptr %at
  br label %start.done
start.part:
  %hp = call ptr @simdgroup.part({args}, i32 %sg, i32 %tail_bits, {last})
  store ptr %hp, ptr %at
  br label %start.done
start.done:
  %sg.next = add i32 %sg, 1
  %more = icmp ult i32 %sg.next, %all
  br i1 %more, label %start, label %round
round:
  br label %step
step:
  %i = phi i32 [ 0, %round ], [ %i.next, %step.done ]
  %busy = phi i1 [ false, %round ], [ %busy.next, %step.done ]
  %i.at = getelementptr ptr, ptr %handles, i32 %i
  %hdl = load ptr, ptr %i.at
  %resume_fn = load ptr, ptr %hdl
  %is_done = icmp eq ptr %resume_fn, null
  br i1 %is_done, label %step.done, label %step.go
step.go:
  call fastcc void %resume_fn(ptr %hdl)
  br label %step.done
step.done:
  %busy.next = phi i1 [ %busy, %step ], [ true, %step.go ]
  %i.next = add i32 %i, 1
  %i.more = icmp ult i32 %i.next, %all
  br i1 %i.more, label %step, label %round.done
round.done:
  br i1 %busy.next, label %round, label %group.done
group.done:
  store ptr %saved_cur, ptr %cur_at
"""
        before = f"  %handles = alloca [33 x ptr]\n  %cur_at = getelementptr i8, ptr %Wk, i64 {WORKER_FRAME_CUR}\n"
    else:
        frame = f"""
  br label %start
start:
  %sg = phi i32 [ 0, %group ], [ %sg.next, %start.full ]
  %is_full = icmp ult i32 %sg, %full_here
{position}
  br i1 %is_full, label %start.full, label %tail
start.full:
  call void @simdgroup.full({args}, i32 %sg, i32 -1, {last})
  %sg.next = add i32 %sg, 1
  br label %start
tail:
  %has_tail = icmp ne i32 %rest, 0
  br i1 %has_tail, label %start.part, label %group.done
start.part:
  call void @simdgroup.part({args}, i32 %full, i32 %tail_bits, {last})
  br label %group.done
group.done:
"""
        before = ""
    span = "  %span = add i32 0, 1\n  %full_here = add i32 %full, 0"
    if span_threads:
        span = """  %left = sub i32 %gx1, %gx
  %most = call i32 @llvm.umin.i32(i32 %left, i32 %fitting)
  %span = select i1 %is_whole, i32 %most, i32 1
  %full_here = mul i32 %full, %span"""
        before = f"""  %fits = udiv i32 {span_threads}, %w
  %fitting = call i32 @llvm.umax.i32(i32 %fits, i32 1)
  %odd = and i32 %w, 31
  %is_whole = icmp eq i32 %odd, 0
"""
    if not tail:
        frame = "\n".join(line for line in frame.split("\n") if "@simdgroup.part" not in line and "%hp" not in line)
    return f"""
define void @mc_run(ptr %L, ptr %Wk, i32 %gx0, i32 %gx1, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d) #1 {{
entry:
{before}  %area = mul i32 %w, %h
  %threads = mul i32 %area, %d
  %full = lshr i32 %threads, 5
  %rest = and i32 %threads, 31
  %more_threads = add i32 %threads, 31
  %all = lshr i32 %more_threads, 5
  %alone = icmp ult i32 %all, 2
  %tail_top = shl i32 1, %rest
  %tail_bits = sub i32 %tail_top, 1
  %stop_at = getelementptr i8, ptr %L, i64 {LAUNCH_STOP}
  %stop = load ptr, ptr %stop_at
  %pos_y = getelementptr i8, ptr %Wk, i64 {WORKER_GROUP_POS + 4}
  store i32 %gy, ptr %pos_y
  %pos_z = getelementptr i8, ptr %Wk, i64 {WORKER_GROUP_POS + 8}
  store i32 %gz, ptr %pos_z
  %any_groups = icmp ult i32 %gx0, %gx1
  br i1 %any_groups, label %group, label %return
group:
  %gx = phi i32 [ %gx0, %entry ], [ %gx.next, %group.next ]
  %pos_x = getelementptr i8, ptr %Wk, i64 {WORKER_GROUP_POS}
  store i32 %gx, ptr %pos_x
{span}{frame}
  %flag = load volatile i32, ptr %stop
  %go_on = icmp eq i32 %flag, 0
  br i1 %go_on, label %group.next, label %return
group.next:
  %gx.next = add i32 %gx, %span
  %gx.more = icmp ult i32 %gx.next, %gx1
  br i1 %gx.more, label %group, label %return
return:
  ret void
}}
"""


def vectorise(
    scalar_ir: str,
    *,
    layout: str,
    single: bool,
    checked: bool,
    width: int,
    tail: bool = True,
    value_sizes: dict[int, int] | None = None,
) -> LockstepModule:
    """Optimised scalar IR of one kernel -> lockstep IR of mc_run."""
    module = parse(scalar_ir)
    canonicalise(module.function)
    expand_block_copies(module.function.blocks)
    split_pairs(module.function.blocks)
    graph = Graph(module.function)
    roots = Roots(module)
    ids = id_shapes(layout, single)
    shapes = Shapes(module, graph, roots, ids)
    users: dict[Instr, list[Instr]] = {}
    used_globals: dict[str, Global] = {}
    written: set[int] = set()
    has_barrier = knows_its_group = False
    for block in graph.order:
        for instr in block.instrs:
            for arg in instr.args:
                if isinstance(arg, Instr):
                    users.setdefault(arg, []).append(instr)
                elif isinstance(arg, Global):
                    used_globals[arg.name] = arg
            has_barrier = has_barrier or (instr.op == "call" and instr.callee == "__mc_threadgroup_barrier")
            knows_its_group = knows_its_group or _knows_its_group(instr)
            written |= _written_slots(instr, roots)
    shared_offsets, variables, total = _lay_out(used_globals)
    is_flat = layout == "line" and not knows_its_group and not total
    length = sum(len(block.instrs) for block in graph.order)
    plan = Plan(
        layout,
        single,
        checked,
        value_sizes or {},
        ids,
        Ranges(shapes),
        users,
        shared_offsets,
        module,
        Liveness(module.function),
        find_homes(graph, shapes, users) if width == 8 else {},
        coroutine=has_barrier and not single,
        prefetch=is_flat and not graph.loops and length >= _LONG_BODY,
    )
    functions = []
    divisions: set[tuple[str, str, str]] = set()
    for name, full in (("simdgroup.full", True), ("simdgroup.part", False))[: 2 if tail else 1]:
        simdgroup = Simdgroup(module, graph, shapes, roots, width, plan)
        functions.append(simdgroup.write(name, full))
        divisions |= simdgroup.divisions
    functions += [division_function(*each, width) for each in sorted(divisions)]
    if plan.uses_mma:
        plan.declarations.add("declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)")
        functions.append(mma_function())
    text = [
        *_tables(used_globals, plan),
        SUPPORT.replace("LAUNCH_SLOW", str(LAUNCH_SLOW)),
        *functions,
        _driver(plan.coroutine, tail, layout, _SPAN[bool(graph.loops)] if is_flat else 0),
        *sorted(plan.declarations | _DECLARATIONS),
        "attributes #0 = { nounwind }",
        "attributes #1 = { nounwind }",
        "!0 = !{}",
        '!1 = !{!"branch_weights", i32 100000, i32 1}',
        '!2 = !{!"branch_weights", i32 1, i32 100000}',
    ]
    return LockstepModule(
        "\n".join(text), tuple(plan.sites), total, tuple(variables), tuple(sorted(written)), bool(graph.loops)
    )


_DECLARATIONS = {
    "declare i32 @llvm.umin.i32(i32, i32)",
    "declare i32 @llvm.umax.i32(i32, i32)",
    "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
    "declare i64 @llvm.coro.size.i64()",
    "declare ptr @llvm.coro.begin(token, ptr)",
    "declare i8 @llvm.coro.suspend(token, i1)",
    "declare ptr @llvm.coro.free(token, ptr)",
    "declare void @llvm.coro.end(ptr, i1, token)",
}


def _written_slots(instr: Instr, roots: Roots) -> set[int]:
    pointer = None
    if instr.op == "store":
        pointer = instr.args[1]
    elif instr.op in ("atomicrmw", "cmpxchg") or instr.callee.startswith("__mc_simdgroup_store"):
        pointer = instr.args[0]
    return {r.slot for r in roots.get(pointer) if r.kind == "buffer"} if pointer is not None else set()


def _lay_out(used: dict[str, Global]) -> tuple[dict[str, int], list[ThreadgroupVariable], int]:
    """Threadgroup variables, one behind the other."""
    offsets: dict[str, int] = {}
    variables: list[ThreadgroupVariable] = []
    at = 0
    for name, variable in used.items():
        if variable.constant:
            continue
        align = max(16, variable.align)
        at = (at + align - 1) // align * align
        offsets[name] = at
        variables.append(ThreadgroupVariable(name.lstrip("@").strip('"'), at, variable.value_type.size))
        at += variable.value_type.size
    return offsets, variables, (at + 15) // 16 * 16


_TYPE_NAME = re.compile(r'%"[^"]*"|%[-\w.$]+')


def _tables(used: dict[str, Global], plan: Plan) -> list[str]:
    types = plan.module.types

    def spelled_out(text: str) -> str:
        """An initialiser with its structs' types in full: the module that it goes to defines no names."""
        return _TYPE_NAME.sub(lambda m: types[m[0]].text if m[0] in types else m[0], _strip_metadata(text))

    out = [spelled_out(variable.text) for variable in used.values() if variable.constant]
    for offsets, name in plan.tables.items():
        body = ", ".join(f"i64 {o}" for o in offsets)
        out.append(f"{name} = internal constant [32 x i64] [{body}], align 64")
    return out


def _strip_metadata(text: str) -> str:
    at = text.find(", !dbg")
    return text[:at] if at >= 0 else text
