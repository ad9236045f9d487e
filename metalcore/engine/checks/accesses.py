"""Hooks for every access to memory that threads share, and tests of its alignment.

`__mc_read`, `__mc_write` and the three atomic ones stand in front of the access, with its address and size.
Neighbouring accesses of one kind and line (components of a vector, members of a struct) share one hook.
"""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.checks import copies
from metalcore.engine.checks.program import Program, hook
from metalcore.engine.ir import (
    I1,
    I32,
    I64,
    Builder,
    Global,
    Instr,
    Value,
    anchor_of,
    gep_terms,
    integer,
    make,
    type_of,
)
from metalcore.engine.lockstep.roots import Root

_UNSET = ("__mc_has_no_value", "__mc_store_unset")
_MOST_BYTES = 64  # of one hook
_OWN_ALIGN = 16  # of threadgroup memory


@dataclass
class _Access:
    instr: Instr
    hook: str
    pointer: Value
    size: int
    align: int
    value: Value | None  # of a store
    base: Value
    offset: int


def add(program: Program) -> None:
    values = {a.index for a in program.kernel.arguments if a.kind == "value" and a.space == "constant"}
    aligns = {a.index: a.element_align for a in program.kernel.arguments if a.kind == "buffer"}
    run: list[_Access] = []
    block = None
    asked: tuple[Value, int] | None = None  # pointer of a load whose hook is __mc_has_no_value
    for instr in program.instrs:
        if instr.callee in _UNSET:
            asked = _settle_value(program, instr) or asked
            continue
        if copies.expand(program, instr, lambda pointer: _is_watched(program, pointer, values)):
            if run:
                _add_hooks(program, run)
            run, asked = [], None
            continue
        found = _access(program, instr, values)
        if found and instr.op == "load" and (found.base, found.offset) == asked:
            _check_alignment(program, found, aligns)
            found = None
        asked = None
        ends = instr.block is not block or (instr.op == "call" and instr.callee.startswith("__mc_"))
        if run and (ends or (found and found.hook != run[0].hook)):
            _add_hooks(program, run)
            run = []
        block = instr.block
        if found is None:
            continue
        _check_alignment(program, found, aligns)
        if found.hook.endswith("_atomically"):
            _add_hooks(program, [found])
        else:
            run.append(found)
    if run:
        _add_hooks(program, run)


def _settle_value(program: Program, instr: Instr) -> tuple[Value, int] | None:
    """Now that the memory behind a pointer is known: whether a value is there is asked of threadgroup memory alone.

    Returns the pointer where a hook stays that is also the hook of the load.
    """
    is_group = all(r.kind in ("shared", "tgarg") for r in program.roots.of_address(instr.args[0]))
    if instr.callee == "__mc_has_no_value":
        if is_group:
            return anchor_of(instr.args[0])
        never = make.number(I1, 0)
        instr.become(make.binary("or", never, never))
        return None
    pointer, size, flag, place = instr.args
    if is_group:
        instr.become(hook("__mc_lose_value", pointer, size, flag))
    else:
        instr.become(hook("__mc_report_unset", flag, place))
    return None


def _access(program: Program, instr: Instr, values: set[int]) -> _Access | None:
    value = None
    if instr.op == "load":
        pointer, ty = instr.args[0], instr.type
    elif instr.op == "store":
        value, pointer = instr.args
        ty = type_of(instr, "stored")
    elif instr.op == "atomicrmw":
        pointer, ty = instr.args[0], instr.type
    elif instr.op == "cmpxchg":
        pointer, ty = instr.args[0], instr.type.items[0]
    else:
        return None
    if not _is_watched(program, pointer, values):
        return None
    name = "__mc_read" if instr.op == "load" else "__mc_write"
    if instr.op in ("atomicrmw", "cmpxchg") or instr.extra.get("atomic"):
        name = {"store": "__mc_store_atomically", "load": "__mc_load_atomically"}.get(instr.op, "__mc_touch_atomically")
    align = int(str(instr.extra.get("align", 1)))
    return _Access(instr, name, pointer, ty.size, align, value, *anchor_of(pointer))


def _is_watched(program: Program, pointer: Value, values: set[int]) -> bool:
    """Whether threads share the memory behind *pointer*, and it is no single value."""
    roots = program.roots.of_address(pointer)
    return not all(r.kind in ("private", "table") or (r.kind == "buffer" and r.slot in values) for r in roots)


def _add_hooks(program: Program, run: list[_Access]) -> None:
    """One hook for each stretch of bytes that the run touches without a gap."""
    by_base: dict[Value, list[_Access]] = {}
    for access in run:
        by_base.setdefault(access.base, []).append(access)
    for members in by_base.values():
        order = {id(a): i for i, a in enumerate(members)}
        stretches: list[list[_Access]] = []
        for access in sorted(members, key=lambda a: (a.offset, order[id(a)])):
            last = stretches[-1] if stretches else []
            end = last[-1].offset + last[-1].size if last else 0
            fits = last and access.offset == end and access.offset + access.size - last[0].offset <= _MOST_BYTES
            if fits and last[-1].size == access.size and _may_join(program, members[0], last[-1], access):
                last.append(access)
            else:
                stretches.append([access])
        for stretch in stretches:
            _add_hook(program, stretch, min(stretch, key=lambda a: order[id(a)]))


def _may_join(program: Program, first: _Access, one: _Access, other: _Access) -> bool:
    """Of one line, and what is stored is known when the first of them is."""
    places = [program.line_of(access.instr) for access in (one, other)]
    if places[0] != places[1]:
        return False
    known = program.order[first.instr]
    stored = [access.instr.args[0] for access in (one, other) if access.value is not None]
    return all(not isinstance(v, Instr) or program.order.get(v, known) < known for v in stored)


def _add_hook(program: Program, stretch: list[_Access], first: _Access) -> None:
    build, lowest = program.before(first.instr), stretch[0]
    size = make.number(I32, sum(a.size for a in stretch))
    # Its own address may be computed further down, or be part of the instruction.
    pointer = lowest.pointer
    if lowest is not first or lowest.offset != 0:
        pointer = build(make.offset(lowest.base, lowest.offset))
    args = [pointer, size]
    if first.hook == "__mc_write":
        args.append(copies.digest(build, (_as_number(build, a.value) for a in stretch if a.value is not None)))
    build(hook(first.hook, *args))


def _as_number(build: Builder, value: Value) -> Value:
    """A stored value as 64 bits: lanes that store to one place are compared."""
    ty = value.type
    if ty.is_ptr or ty.all_bits > 64 or ty.is_aggregate:
        return make.number(I64, 0)
    if ty.kind != "int":
        value = build(make.cast("bitcast", value, integer(ty.all_bits)))
    return value if ty.all_bits == 64 else build(make.cast("zext", value, I64))


# -- alignment ---------------------------------------------------------------------------------------
def _check_alignment(program: Program, access: _Access, aligns: dict[int, int]) -> None:
    if access.align <= _surely_aligned(program, access.pointer, aligns):
        return
    build = program.before(access.instr)
    number = build(make.cast("ptrtoint", build(make.offset(access.base, access.offset)), I64))
    low = build(make.binary("and", number, make.number(I64, access.align - 1)))
    test = build(make.compare("ne", low, make.number(I64, 0)))
    verbs = {"__mc_read": "a read", "__mc_write": "a write"}
    verb = verbs.get(access.hook, "an atomic operation")
    program.report_if(test, "misaligned", access.instr, f"{verb} that needs a multiple of {access.align} bytes")


def _surely_aligned(program: Program, pointer: Value, aligns: dict[int, int]) -> int:
    """What an address is a multiple of, given how the host binds buffers."""
    result = 1 << 12
    while isinstance(pointer, Instr) and pointer.op == "getelementptr":
        for scale, index in gep_terms(pointer):
            factor = index if isinstance(index, int) else scale
            if factor:
                result = min(result, factor & -factor)
        pointer = pointer.args[0]
    if isinstance(pointer, Global):
        return min(result, max(_OWN_ALIGN, pointer.align))
    roots = program.roots.of_address(pointer)
    if not isinstance(pointer, Instr) or pointer.callee not in ("__mc_arg", "__mc_threadgroup_arg"):
        return 1
    return min([result, *(_align_of_root(root, aligns) for root in roots)])


def _align_of_root(root: Root, aligns: dict[int, int]) -> int:
    if root.kind == "buffer":
        return aligns.get(root.slot, 1)
    return _OWN_ALIGN if root.kind in ("shared", "tgarg") else 1
