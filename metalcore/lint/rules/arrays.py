"""dynamic-private-array: what is left in memory after everything is unrolled and promoted."""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Type, Value
from metalcore.lint.context import Context
from metalcore.lint.program import Program, constant

LONGEST = 64


def check(context: Context, program: Program) -> None:
    """An address inside a private array that depends on a value of the run."""
    for instr in program.instructions():
        if instr.op != "getelementptr" or all(isinstance(arg, Const) for arg in instr.args[1:]):
            continue
        array = _array(instr.args[0])
        place = program.place(instr)
        if array is None or place is None or all(_unrolls(program, arg) for arg in instr.args[1:]):
            continue
        kind = array.extra["allocated"]
        assert isinstance(kind, Type)
        text = f"a private array of {kind.size} bytes is indexed by a value that is not known at compile time"
        context.findings.add("dynamic-private-array", place, text, program.kernel.host_name)


def _unrolls(program: Program, index: Value) -> bool:
    """Whether an index only counts through a short loop of known length, which Metal's compiler unrolls even where ours
    leaves it."""
    if isinstance(index, Const):
        return True
    if not isinstance(index, Instr):
        return False
    if index.op in ("sext", "zext", "trunc", "add", "sub", "mul", "shl", "or", "and", "xor"):
        return all(_unrolls(program, arg) for arg in index.args)
    loop = program.loop_of(index.block)
    if index.op != "phi" or loop is None or index.block is not loop.header:
        return False
    counters = [index, *(a for a in index.args if isinstance(a, Instr))]
    compared = [user for counter in counters for user in program.users.get(counter, []) if user.op == "icmp"]
    ends = [constant(user.args[1]) for user in compared if user.block in loop.blocks]
    return any(end is not None and abs(end) <= LONGEST for end in ends)


def _array(address: Value) -> Instr | None:
    """The array behind an address that is only offset, never chosen."""
    while isinstance(address, Instr) and address.op in ("getelementptr", "addrspacecast", "bitcast"):
        address = address.args[0]
    if isinstance(address, Instr) and address.op == "alloca":
        kind = address.extra["allocated"]
        if isinstance(kind, Type) and kind.is_aggregate:
            return address
    return None
