"""divergent-barrier: a barrier that only some threads reach."""

from __future__ import annotations

from metalcore.diagnostics import Related
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
        for barrier in barriers:
            place = program.place(barrier)
            if place is None or barrier.block is None:
                continue
            branch = divergence.deciding(barrier.block)
            if branch is None:
                continue
            why = divergence.branches[branch]
            text = f"not all threads of the {level} reach this {name}: it depends on {why}"
            decided = program.place(branch.terminator)
            related: tuple[Related, ...] = ()
            if decided is not None and not decided.file.startswith("<"):
                related = (Related(decided.file, decided.line, decided.column, "decided here"),)
            context.findings.add("divergent-barrier", place, text, program.kernel.host_name, related)
