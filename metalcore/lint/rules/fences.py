"""barrier-flags: a barrier between a write and a read whose flags do not name that memory."""

from __future__ import annotations

from collections.abc import Callable

from metalcore.engine.ir import Block, Instr, Value
from metalcore.engine.lockstep.roots import Root
from metalcore.lint.context import Context
from metalcore.lint.program import Program, constant
from metalcore.lint.slices import attributes, key

_KINDS = {"threadgroup": ("shared", "tgarg"), "device": ("buffer",)}
_FLAG = {"device": 1, "threadgroup": 2}
_THREAD = ("thread_position_in_grid", "thread_position_in_threadgroup", "thread_index_in_threadgroup")
Accesses = dict[Root, list[Value | None]]  # None: an address that is not one value, as of a matrix
_BARRIERS = ("__mc_threadgroup_barrier", "__mc_simdgroup_barrier")


def check(context: Context, program: Program) -> None:
    """For each barrier, what is written before and read behind it with no barrier of the right kind between."""
    for barrier in list(program.calls(*_BARRIERS)):
        flags = constant(barrier.args[0])
        place = program.place(barrier)
        if flags is None or place is None:
            continue
        crossing = {kind: _crosses(program, barrier, kind) for kind in _FLAG}
        missing = [kind for kind, bit in _FLAG.items() if crossing[kind] and not flags & bit]
        if "device" in missing and crossing["threadgroup"]:
            missing.remove("device")  # it guards threadgroup memory; each thread may well read its own elements
        for kind in missing:
            name = barrier.callee[5:]
            given = {0: "mem_none", 1: "mem_device", 2: "mem_threadgroup"}.get(flags, str(flags))
            text = (
                f"{kind} memory is written before this {name} and read behind it, and its flag is {given}, "
                f"not mem_{kind}"
            )
            context.findings.add("barrier-flags", place, text, program.kernel.host_name)


def _crosses(program: Program, barrier: Instr, kind: str) -> bool:
    """Whether some thread may read behind the barrier what another wrote before it."""
    written = _before(program, barrier, kind)
    read = _behind(program, barrier, kind)
    own = (*_THREAD, "thread_index_in_simdgroup") if "simdgroup" in barrier.callee else _THREAD
    return any(not _is_own(a, b, own) for root in written.keys() & read for a in written[root] for b in read[root])


def _is_own(written: Value | None, read: Value | None, own: tuple[str, ...]) -> bool:
    """Whether a thread reads what it wrote itself: the same expression of its own position."""
    if written is None or read is None or not any(name in own for name, _ in attributes([written])):
        return False
    return key(written) == key(read)


def _covers(instr: Instr, kind: str) -> bool:
    if instr.op != "call" or not instr.callee.startswith(_BARRIERS):
        return False
    flags = constant(instr.args[0])
    return flags is None or bool(flags & _FLAG[kind])


def _collect(found: Accesses, program: Program, instr: Instr, roots: frozenset[Root], kind: str) -> None:
    if instr.op in ("atomicrmw", "cmpxchg") or instr.extra.get("atomic"):
        return
    for root in roots:
        if root.kind in _KINDS[kind]:
            found.setdefault(root, []).append(program.address(instr))


def _before(program: Program, barrier: Instr, kind: str) -> Accesses:
    """Addresses written on the ways to the barrier."""
    return _on_the_ways(program, barrier, kind, program.writes, is_forward=False)


def _behind(program: Program, barrier: Instr, kind: str) -> Accesses:
    """Addresses read on the ways from the barrier."""
    return _on_the_ways(program, barrier, kind, program.reads, is_forward=True)


def _on_the_ways(
    program: Program, barrier: Instr, kind: str, accessed: Callable[[Instr], frozenset[Root]], is_forward: bool
) -> Accesses:
    """Addresses between the barrier and the next ones that cover this kind of memory."""
    assert barrier.block is not None
    found: Accesses = {}
    seen: set[Block] = set()
    at = barrier.block.instrs.index(barrier)
    near = barrier.block.instrs[at + 1 :] if is_forward else barrier.block.instrs[:at]
    work = [(barrier.block, near)]
    while work:
        block, instrs = work.pop()
        for instr in instrs if is_forward else reversed(instrs):
            if _covers(instr, kind):
                break
            _collect(found, program, instr, accessed(instr), kind)
        else:
            for other in block.succs if is_forward else block.preds:
                if other not in seen:
                    seen.add(other)
                    work.append((other, other.instrs))
    return found
