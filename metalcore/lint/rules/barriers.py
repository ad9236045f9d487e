"""divergent-barrier: a barrier that only some threads reach."""

from __future__ import annotations

from metalcore.diagnostics import Related
from metalcore.engine.ir import Block
from metalcore.lint.context import Context
from metalcore.lint.divergence import Divergence
from metalcore.lint.program import Program

SIMD_WIDTH = 32


def check(context: Context, program: Program) -> None:
    """A barrier that is control dependent on a branch whose outcome differs between threads."""
    alone = program.lowered.max_threads is not None and program.lowered.max_threads <= SIMD_WIDTH
    for name, level in (("threadgroup_barrier", "threadgroup"), ("simdgroup_barrier", "simdgroup")):
        barriers = list(program.calls(f"__mc_{name}"))
        if not barriers:
            continue
        divergence = Divergence(program, "simdgroup" if alone else level)
        seen: set[Block] = set()
        for barrier in barriers:
            place = program.place(barrier)
            branch = divergence.deciding(barrier.block) if barrier.block is not None else None
            if place is None or branch is None or branch in seen:
                continue  # one finding for each branch: what is behind an early return may hold many barriers
            seen.add(branch)
            why = divergence.branches[branch].name
            text = f"not all threads of the {level} reach this {name}: it depends on {why}"
            decided = program.place(branch.terminator)
            related: tuple[Related, ...] = ()
            if decided is not None and not decided.file.startswith("<"):
                related = (Related(decided.file, decided.line, decided.column, "decided here"),)
            context.findings.add("divergent-barrier", place, text, program.kernel.host_name, related)
