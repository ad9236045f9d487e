"""mc_run: the loops over the threadgroups of a row and over their simdgroups."""

from __future__ import annotations

from .ir import Instr
from .memory import LAUNCH_STOP, WORKER_FRAME_CUR, WORKER_GROUP_POS
from .watch import HOOK_OFFSET, LAUNCH_SANITIZER, SANITIZER_ORDER


def first_position(layout: str) -> str:
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


_ARGS = "ptr %L, ptr %Wk, i32 %gx, i32 %gy, i32 %gz, i32 %w, i32 %h, i32 %d"
_LAST = "i1 %alone, i32 %lx, i32 %ly, i32 %lz"
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
SPAN = {True: 1 << 13, False: 1 << 17}
# A kernel with so many instructions keeps a processor from looking ahead to the loads of the next simdgroups.
LONG_BODY = 16


def knows_its_group(instr: Instr) -> bool:
    """Whether an instruction gives another answer when neighbouring threadgroups are run as one."""
    names = ("threadgroup", "simdgroup_index", "quadgroup_index")
    return (
        instr.op == "call"
        and instr.callee.startswith("__mc_")
        and instr.callee not in _GROUP_FREE
        and any(name in instr.callee for name in names)
    )


def _in_chosen_order(frame: str, coroutine: bool, position: str, initial: str) -> str:
    """Loops over places in the order of simdgroups instead of over simdgroups."""
    begin = f"""
  %sanitizer_at = getelementptr i8, ptr %L, i64 {LAUNCH_SANITIZER}
  %sanitizer = load ptr, ptr %sanitizer_at
  %begin_at = getelementptr i8, ptr %sanitizer, i64 {HOOK_OFFSET["begin_group"]}
  %begin_fn = load ptr, ptr %begin_at
  call void %begin_fn(ptr %sanitizer, ptr %Wk, i32 %threads)
  %order = getelementptr i8, ptr %sanitizer, i64 {SANITIZER_ORDER}
{initial}"""
    if coroutine:
        frame = frame.replace(
            "  %sg = phi i32 [ 0, %group ], [ %sg.next, %start.done ]",
            "  %k = phi i32 [ 0, %group ], [ %sg.next, %start.done ]\n" + _ordered("sg", "k"),
        )
        frame = frame.replace("%sg.next = add i32 %sg, 1", "%sg.next = add i32 %k, 1")
        frame = frame.replace("  %i = phi i32 [ 0, %round ]", "  %j = phi i32 [ 0, %round ]")
        frame = frame.replace("  %i.at = ", _ordered("i", "j") + "\n  %i.at = ")
        return begin + frame.replace("%i.next = add i32 %i, 1", "%i.next = add i32 %j, 1")
    return f"""{begin}
  br label %start
start:
  %k = phi i32 [ 0, %group ], [ %k.next, %start.done ]
{_ordered("sg", "k")}
  %is_full = icmp ult i32 %sg, %full
{position}
  br i1 %is_full, label %start.full, label %start.part
start.full:
  call void @simdgroup.full({_ARGS}, i32 %sg, i32 -1, {_LAST})
  br label %start.done
start.part:
  call void @simdgroup.part({_ARGS}, i32 %sg, i32 %tail_bits, {_LAST})
  br label %start.done
start.done:
  %k.next = add i32 %k, 1
  %k.more = icmp ult i32 %k.next, %all
  br i1 %k.more, label %start, label %group.done
group.done:
"""


def _ordered(result: str, place: str) -> str:
    return f"""  %{result}.place = getelementptr i32, ptr %order, i32 %{place}
  %{result} = load i32, ptr %{result}.place"""


def driver(
    coroutine: bool, is_cut: bool, tail: bool, layout: str, span_threads: int, sanitized: bool, initial: str = ""
) -> str:
    """mc_run: every threadgroup of a row, every simdgroup of a threadgroup.

    *initial* sets the threadgroup variables that have an initialiser.

    Sanitize mode is told of each threadgroup, and chooses the order of its simdgroups.
    Where *span_threads* is given, whole threadgroups side by side are one long loop over simdgroups.
    """
    args, last = _ARGS, _LAST
    position = first_position(layout)
    before = ""
    if is_cut:
        frame = f"\n  call void @simdgroup.full({args}, i32 %all)\n"
    elif coroutine:
        part = f"call ptr @simdgroup.part({args}, i32 %sg, i32 %tail_bits, {last})" if tail else "freeze ptr null"
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
  br label %start.held
start.part:
  %hp = {part}
  br label %start.held
start.held:
  %held = phi ptr [ %hf, %start.full ], [ %hp, %start.part ]
  store ptr %held, ptr %at
  %is_absent = icmp eq ptr %held, null
  br i1 %is_absent, label %group.done, label %start.done
start.done:
  %sg.next = add i32 %sg, 1
  %more = icmp ult i32 %sg.next, %all
  br i1 %more, label %start, label %round
round:
  br label %step
step:
  %i = phi i32 [ 0, %round ], [ %i.next, %step.done ]
  %i.at = getelementptr ptr, ptr %handles, i32 %i
  %hdl = load ptr, ptr %i.at
  %resume_fn = load ptr, ptr %hdl
  %is_done = icmp eq ptr %resume_fn, null
  br i1 %is_done, label %step.done, label %step.go
step.go:
  call fastcc void %resume_fn(ptr %hdl)
  br label %step.done
step.done:
  %i.next = add i32 %i, 1
  %i.more = icmp ult i32 %i.next, %all
  br i1 %i.more, label %step, label %look
look:
  %n = phi i32 [ 0, %step.done ], [ %n.next, %look.next ]
  %n.at = getelementptr ptr, ptr %handles, i32 %n
  %n.hdl = load ptr, ptr %n.at
  %n.fn = load ptr, ptr %n.hdl
  %n.done = icmp eq ptr %n.fn, null
  br i1 %n.done, label %look.next, label %round
look.next:
  %n.next = add i32 %n, 1
  %n.more = icmp ult i32 %n.next, %all
  br i1 %n.more, label %look, label %group.done
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
    if sanitized:
        frame = _in_chosen_order(frame, coroutine, position, initial)
    elif initial:
        frame = f"\n{initial}{frame}"
    if not tail:
        frame = "\n".join(line for line in frame.split("\n") if "@simdgroup.part" not in line)
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
  br i1 %go_on, label %group.next, label %attend, !prof !1
attend:
  %leave = call preserve_allcc i1 @mc.attend(ptr nest %stop)
  br i1 %leave, label %return, label %group.next
group.next:
  %gx.next = add i32 %gx, %span
  %gx.more = icmp ult i32 %gx.next, %gx1
  br i1 %gx.more, label %group, label %return
return:
  ret void
}}
"""
