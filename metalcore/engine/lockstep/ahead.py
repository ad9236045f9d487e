"""What is the same for all simdgroups between two barriers is computed ahead of the rest, by one of them.

    barrier; s = partial[lane]; a = simd_sum(lane < sg ? s : 0); b = simd_sum(s); barrier

becomes

    barrier; s = partial[lane]; b = simd_sum(s); barrier; a = simd_sum(lane < sg ? s : 0)

The first part is then a stretch of its own (`Same.once`), and since nothing behind the new barrier touches memory, the
last one orders nothing any more: it is taken out.
"""

from __future__ import annotations

from metalcore.engine.ir import VOID, Block, Function, Instr, is_barrier, is_ignored

from .cfg import reach
from .externals import EXTERNALS
from .same import Same
from .turns import ends_with_barrier

_ACCESSES = frozenset(["load", "store", "atomicrmw", "cmpxchg", "fence", "alloca"])
_PURE = frozenset(["attribute", "argument", "shuffle", "take", "broadcast", "first", "vote", "reduce"])


def compute_ahead(function: Function, same: Same) -> None:
    """Changes the function, whose barriers end their blocks."""
    found = [block for region in same.quiet if (block := _mixed_end(region, same)) is not None]
    entry, barriers = function.blocks[0], [block.instrs[-2] for block in function.blocks if ends_with_barrier(block)]
    if entry not in found and any(instr.op == "load" and _is_alike(instr, same) for instr in entry.instrs):
        found.append(entry)  # numbers of the launch, mostly: they are read once
    for block in found:
        _split(function, block, barriers[0], same)
    if found:
        function.link()
        for block in [block for block in function.blocks if ends_with_barrier(block)]:
            if _orders_nothing(block):
                block.instrs.remove(block.instrs[-2])


def _mixed_end(region: set[Block], same: Same) -> Block | None:
    """The last block of a region that is the same for all up to there, and worth the change."""
    ends = [block for block in region if ends_with_barrier(block)]
    others = [instr for block in region if block not in ends for instr in block.instrs]
    if len(ends) != 1 or not all(block.succs for block in region):
        return None
    (end,) = ends
    alike = [instr for instr in end.instrs if _is_alike(instr, same)]
    if not all(_is_alike(instr, same) for instr in [*others, *end.phis()] if instr.name):
        return None
    is_mixed = any(instr in same.differs for instr in end.instrs)
    return end if is_mixed and any(_is_worth_it(instr) for instr in [*others, *alike]) else None


def _is_alike(instr: Instr, same: Same) -> bool:
    return bool(instr.name) and instr not in same.differs


def _is_worth_it(instr: Instr) -> bool:
    external = EXTERNALS.get(instr.callee) if instr.op == "call" else None
    return instr.op == "load" or (external is not None and external.reduction is not None)


def _split(function: Function, block: Block, barrier: Instr, same: Same) -> None:
    """Another barrier, behind what is the same for all. Nothing that this reads is written here: the order is free."""
    first = [instr for instr in block.instrs if instr.op == "phi" or _is_alike(instr, same)]
    rest = [instr for instr in block.instrs if instr not in set(first)]
    behind = Block(f"{block.name}.own")
    added = Instr("call", barrier.type, list(barrier.args), extra=dict(barrier.extra), line=barrier.line, block=block)
    block.instrs = [*first, added, Instr("br", VOID, [], targets=[behind], block=block)]
    behind.instrs = rest
    for instr in rest:
        instr.block = behind
    function.blocks.insert(function.blocks.index(block) + 1, behind)
    for succ in behind.terminator.targets:
        for phi in succ.phis():
            phi.targets = [behind if source is block else source for source in phi.targets]


def _orders_nothing(block: Block) -> bool:
    """Whether no memory is touched since the barriers before the one that ends a block."""
    since = reach([block], lambda at: [p for p in at.preds if not ends_with_barrier(p)])
    return not any(_touches(instr) for at in since for instr in at.instrs)


def _touches(instr: Instr) -> bool:
    if instr.op != "call":
        return instr.op in _ACCESSES
    if is_barrier(instr) or is_ignored(instr):
        return False
    external = EXTERNALS.get(instr.callee)
    if external is not None:
        return external.reduction is None and external.emitter not in _PURE
    return instr.type is VOID or not instr.callee.startswith("llvm.")
