"""vector-without-tail: a kernel on float4 that compares its index with `n / 4` and has nothing for the rest."""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Type, Value
from metalcore.engine.lockstep.roots import Root
from metalcore.lint.context import Context
from metalcore.lint.program import Program, constant
from metalcore.lint.slices import attributes, made_of

WIDTH = 4  # pairs are mostly complex numbers, and halves of a length are many things


def check(context: Context, program: Program) -> None:
    """A bound that is scaled by the vector's width, and no access to single elements of the same buffers."""
    vectors, scalars = _accesses(program)
    if not vectors:
        return
    widths = set(vectors.values())
    if any(root in scalars for root in vectors) or _takes_rest(program, widths):
        return
    for instr in program.instructions():
        place = program.place(instr) if instr.op == "icmp" else None
        if place is None or place.own:
            continue
        for index, bound in (instr.args, reversed(instr.args)):
            width = _scale(index, bound, widths)
            if width:
                text = f"elements come in vectors of {width}, and the last n % {width} of them have no code"
                context.findings.add("vector-without-tail", place, text, program.kernel.host_name)


def _accesses(program: Program) -> tuple[dict[Root, int], set[Root]]:
    """Buffers that are indexed in vectors, with the width, and those that are indexed in single elements."""
    vectors: dict[Root, int] = {}
    scalars: set[Root] = set()
    for instr in program.instructions():
        if instr.op != "getelementptr" or len(instr.args) < 2 or isinstance(instr.args[1], Const):
            continue
        roots = [root for root in program.roots.get(instr.args[0]) if root.kind == "buffer"]
        source = instr.extra["source"]
        assert isinstance(source, Type)
        if id(source) in program.vectors and len(source.items) == WIDTH:
            vectors.update((root, len(source.items)) for root in roots)
        elif not source.is_aggregate:
            scalars.update(roots)
    return vectors, scalars


def _takes_rest(program: Program, widths: set[int]) -> bool:
    """Whether the kernel computes `n % 4` in some way."""
    for instr in program.instructions():
        if len(instr.args) != 2:
            continue
        number = constant(instr.args[1])
        if (instr.op in ("urem", "srem") and number in widths) or (
            instr.op == "and" and number is not None and (number + 1 in widths or -number in widths)
        ):
            return True
    return False


def _scale(index: Value, bound: Value, widths: set[int]) -> int:
    """The width that a comparison of a thread's index with a length is scaled by; 0 where it is not."""
    if not attributes([index]) or attributes([bound], through_memory=False) or isinstance(bound, Const):
        return 0
    if any(i.op == "load" for i in made_of([bound])):
        for instr in made_of([bound], through_memory=False):
            width = _divides(instr)
            if width in widths:
                return width
        for instr in made_of([index], through_memory=False):
            width = _multiplies(instr)
            if width in widths and attributes(instr.args[:1]):
                return width
    return 0


def _divides(instr: Instr) -> int:
    number = constant(instr.args[1]) if len(instr.args) == 2 else None
    if number is None:
        return 0
    return number if instr.op in ("udiv", "sdiv") else 1 << number if instr.op == "lshr" and 0 < number < 8 else 0


def _multiplies(instr: Instr) -> int:
    number = constant(instr.args[1]) if len(instr.args) == 2 else None
    if number is None:
        return 0
    return number if instr.op == "mul" else 1 << number if instr.op == "shl" and 0 < number < 8 else 0
