"""A whole kernel, from scalar IR to the module that defines mc_run."""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.abi import SIMDGROUPS
from metalcore.engine.garbage import without_collections
from metalcore.engine.ir import Global, Instr, Value, flattened, is_barrier, parse
from metalcore.engine.ir import Module as ScalarModule
from metalcore.engine.model import LANES, STACK_AROUND, Site, ThreadgroupVariable
from metalcore.errors import UnsupportedFeature

from .ahead import compute_ahead
from .block_copies import LONGEST_SANITIZED, LONGEST_UNROLLED, loop_long_copies
from .bounds import Bounds
from .cfg import Graph, canonicalise
from .cuts import MOST_KEPT, kept_bytes, split_at_barriers
from .driver import LONG_BODY, SPAN, Driver, knows_its_group
from .emitters import Emitters
from .extremes import choose_between_extremes
from .factors import Factors, find_factors
from .flags import drop_silent_hooks, number_lanes
from .gathers import MANY_ACCESSES
from .homes import find_homes
from .ids import id_shapes
from .initial import initial_values
from .live import Liveness
from .origins import add_origins
from .plan import Machine, Plan
from .regions import accesses
from .roots import UNKNOWN, Roots, expand_block_copies, split_pairs
from .same import Same, quiet_regions
from .shape import Shape
from .shapes import Shapes
from .shorts import widen_shorts
from .simdgroup import Simdgroup
from .streaming import streamed_stores
from .support import support
from .turns import ends_with_barrier


@dataclass
class LockstepModule:
    """Vector IR as text, and what the host must know about it."""

    ir: str
    sites: tuple[Site, ...]
    static_threadgroup_memory: int
    threadgroup_variables: tuple[ThreadgroupVariable, ...]
    written: tuple[int, ...]
    writes_anywhere: bool  # through a pointer that came from memory
    has_loops: bool
    wide_from: int  # bytes of a buffer from which the wide variant has to run; 0: never
    private_memory: int  # bytes of the private arrays of one thread
    stack_size: int  # bytes that mc_run may need of its stack


MANY_LANES = 96  # accesses of lanes that have an address each; with more, they are calls
MANY_ROUNDINGS = 128  # to bfloat


def _lane_accesses(graph: Graph, shapes: Shapes) -> int:
    pointers = (i.args[i.op == "store"] for b in graph.order for i in b.instrs if i.op in ("load", "store"))
    return sum(shapes.get(pointer).varying for pointer in pointers)


def _roundings(graph: Graph) -> int:
    return sum(i.op == "fptrunc" and i.type.kind == "bfloat" for b in graph.order for i in b.instrs)


def _simdgroups_of(max_threads: int | None) -> int:
    return SIMDGROUPS if max_threads is None else min(SIMDGROUPS, -(-max_threads // LANES))


@without_collections
def vectorise(
    scalar: str | ScalarModule,
    *,
    layout: str,
    single: bool,
    checked: bool,
    sanitized: bool = False,
    width: int,
    has_half: bool = False,
    masks_rows: bool = True,
    has_extremes: bool = False,
    has_pairs: bool = False,
    tail: bool = True,
    value_sizes: dict[int, int] | None = None,
    max_threads: int | None = None,
    wide: bool = False,
    keep_tests: bool = False,
    keeps_registers: str = "",
) -> LockstepModule:
    """Optimised scalar IR of one kernel -> lockstep IR of mc_run.

    *width*, *has_half*, *masks_rows*, *has_extremes*, *has_pairs*: of the processor, see `Machine`.
    *max_threads*: what the source allows of a threadgroup; launches with more are refused.
    *keeps_registers*: attributes of functions that preserve all registers, which the target may need.
    """
    module = flattened(parse(scalar) if isinstance(scalar, str) else scalar)
    loop_long_copies(module.function, LONGEST_SANITIZED if sanitized else LONGEST_UNROLLED)
    canonicalise(module.function)
    expand_block_copies(module.function.blocks)
    split_pairs(module.function.blocks)
    choose_between_extremes(module.function.blocks)
    most_simdgroups = _simdgroups_of(max_threads)
    widen_shorts(module.function, "%mc.short.", most_simdgroups)
    if sanitized:
        drop_silent_hooks(module.function)
        number_lanes(module.function)
    barriers = [i for b in module.function.blocks for i in b.instrs if is_barrier(i)]
    reports = {"__mc_report_if", "__mc_tell"} & module.functions.keys()
    may_cut = bool(barriers) and not (single or tail or sanitized or reports)
    ids = id_shapes(layout, single)
    if may_cut:
        split_at_barriers(module.function)
        _compute_ahead(module, layout, ids, wide)
        barriers = [i for b in module.function.blocks for i in b.instrs if is_barrier(i)]
    graph = Graph(module.function)
    roots = Roots(module)
    if checked:
        add_origins(module.function.blocks, roots)
    shapes = Shapes(module, graph, roots, ids, wide, most_simdgroups)
    users: dict[Instr, list[Instr]] = {}
    used_globals: dict[str, Global] = {}
    written: set[int] = set()
    is_grouped = writes_anywhere = False
    for block in graph.order:
        for instr in block.instrs:
            for arg in instr.args:
                if isinstance(arg, Instr):
                    users.setdefault(arg, []).append(instr)
                elif isinstance(arg, Global):
                    used_globals[arg.name] = arg
            is_grouped = is_grouped or knows_its_group(instr)
            if (pointer := _written_through(instr)) is not None:
                behind = roots.of_address(pointer)
                written |= {root.slot for root in behind if root.kind == "buffer"}
                writes_anywhere = writes_anywhere or UNKNOWN in behind
            if checked or sanitized:
                _refuse_kept_pointer(instr, roots)
    shared_offsets, variables, total = _lay_out(used_globals)
    is_flat = layout == "line" and not is_grouped and not total and not sanitized
    length = sum(len(block.instrs) for block in graph.order)
    bounds = Bounds(module, shapes, roots, value_sizes or {}, keep_tests)

    def needs_no_test(load: Instr) -> bool:
        pointer = load.args[0]
        return not sanitized and (not checked or bounds.proves(pointer, load.type.size, roots.of_address(pointer)))

    plan = Plan(
        Machine(width, has_half, masks_rows, has_pairs, has_extremes),
        layout,
        single,
        checked,
        sanitized,
        ids,
        bounds,
        users,
        shared_offsets,
        module,
        Liveness(module.function),
        find_homes(graph, shapes, users) if width == 8 else {},
        find_factors(graph, shapes, roots, users, needs_no_test) if width == 8 else Factors(),
        coroutine=bool(barriers) and not single,
        most_simdgroups=most_simdgroups,
        prefetch=is_flat and not graph.loops and length >= LONG_BODY,
        is_large=accesses(graph.order) > MANY_ACCESSES,
        calls_lanes=_lane_accesses(graph, shapes) > MANY_LANES,
        calls_rounding=_roundings(graph) > MANY_ROUNDINGS,
        streamed=frozenset() if checked or sanitized else streamed_stores(graph.order, roots),
    )
    if may_cut and not roots.allocas and not roots.origins:
        same = plan.same = Same(graph, shapes, roots, layout, None if writes_anywhere else written)
        is_small = plan.most_simdgroups * kept_bytes(plan.live, same, barriers, shapes, plan.homes) <= MOST_KEPT
        if same.meet_at_barriers and is_small:
            plan.is_cut, plan.coroutine = True, False
    functions, sizes = [], []
    helpers: dict[str, str] = {}
    for name, full in (("simdgroup.full", True), ("simdgroup.part", False))[: 2 if tail else 1]:
        emitters = Emitters(module, graph, shapes, roots, width, plan)
        functions.append(Simdgroup(emitters).write(name, full))
        helpers |= emitters.code.helpers
        plan.declarations |= set(emitters.code.declarations.values())
        sizes.append(emitters.code.stack_bound() + emitters.cuts.stack())
    functions += [text for _, text in sorted(helpers.items())]
    initial = initial_values(used_globals, shared_offsets, module.spelled_out)
    span = SPAN[bool(graph.loops)] if is_flat else 0
    text = [
        *_tables(used_globals, plan),
        *initial.tables,
        *support(),
        *functions,
        *initial.functions.values(),
        Driver(plan.coroutine, plan.is_cut, tail, layout, span, sanitized, initial).write(),
        *sorted(plan.declarations | _DECLARATIONS),
        f"attributes #0 = {{ nounwind {_PROBES} }}",
        f"attributes #1 = {{ nounwind {_PROBES} }}",
        f"attributes #2 = {{ nounwind {keeps_registers} }}",
        "!0 = !{}",
        '!1 = !{!"branch_weights", i32 100000, i32 1}',
        '!2 = !{!"branch_weights", i32 1, i32 100000}',
        "!3 = !{i32 1}",
    ]
    return LockstepModule(
        "\n".join(text),
        tuple(plan.sites),
        total,
        tuple(variables),
        tuple(sorted(written)),
        writes_anywhere,
        bool(graph.loops),
        shapes.wrapping.reach(),
        sum(plan.bounds.extent(root) or 0 for root in roots.allocas),
        STACK_AROUND + max(sizes),
    )


# A frame larger than this is touched step by step, so that none passes over the guard pages of runtime/native/memory.c.
_PROBES = '"probe-stack"="inline-asm" "stack-probe-size"="32768"'
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


def _compute_ahead(module: ScalarModule, layout: str, ids: dict[tuple[str, int], Shape], wide: bool) -> None:
    graph = Graph(module.function)
    if not quiet_regions(graph, [block for block in graph.order if ends_with_barrier(block)]):
        return
    roots = Roots(module)
    pointers = [p for b in graph.order for i in b.instrs if (p := _written_through(i)) is not None]
    behind = {root for pointer in pointers for root in roots.of_address(pointer)}
    written = None if UNKNOWN in behind else {root.slot for root in behind if root.kind == "buffer"}
    same = Same(graph, Shapes(module, graph, roots, ids, wide), roots, layout, written)
    if same.meet_at_barriers:
        compute_ahead(module.function, same)


def _written_through(instr: Instr) -> Value | None:
    """The pointer that an instruction writes through."""
    if instr.op == "store":
        return instr.args[1]
    if instr.op in ("atomicrmw", "cmpxchg") or instr.callee.startswith("__mc_simdgroup_store"):
        return instr.args[0]
    return None


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


def _refuse_kept_pointer(instr: Instr, roots: Roots) -> None:
    """What is read again as an address could not be told from one that leads anywhere."""
    if instr.op != "store" or instr.args[0].type.kind != "ptr":
        return
    kinds = {root.kind for root in roots.get(instr.args[0])}
    if kinds & {"private", "shared", "tgarg"}:
        space = "a private array" if "private" in kinds else "threadgroup memory"
        raise UnsupportedFeature(
            f"a pointer to {space} that is kept in an array or a struct and picked at run time, outside of fast mode: "
            "use one array and an offset into it"
        )


def _tables(used: dict[str, Global], plan: Plan) -> list[str]:
    variables = plan.module.globals
    for table in used.values():
        inside = (variables.get(name) for name in table.names())
        if table.constant and any(variable is not None and not variable.constant for variable in inside):
            raise UnsupportedFeature(
                "a table of pointers to threadgroup variables whose entries are picked at run time: use one variable "
                "and an offset into it"
            )
        if table.constant and table.names():
            raise UnsupportedFeature(f"a constant table of pointers ({table.name[1:]})")
    out = [plan.module.definition(variable) for variable in used.values() if variable.constant]
    for offsets, name in plan.tables.items():
        body = ", ".join(f"i64 {o}" for o in offsets)
        out.append(f"{name} = internal constant [32 x i64] [{body}], align 64")
    return out
