"""half-accumulator: a running sum whose every step is rounded to 16 bits."""

from __future__ import annotations

from metalcore.engine.ir import Const, Instr, Value
from metalcore.engine.lockstep.cfg import Loop
from metalcore.lint.context import Context
from metalcore.lint.program import Program, constant
from metalcore.lint.slices import made_of

SHORT = 8  # a loop of so few steps loses little
_DEPTH = 12
_PASSED_ON = ("fptrunc", "fpext", "select", "phi", "fneg", "fmul", "bitcast")
_NAMES = {"half": "half", "bfloat": "bfloat"}


def check(context: Context, program: Program) -> None:
    """A variable of a loop that is of a 16-bit type and grows by addition in each step."""
    for loop in program.graph.loops:
        if _steps(loop) <= SHORT:
            continue
        for phi in loop.header.phis():
            if phi.type.kind not in _NAMES:
                continue
            again = next(a for a, t in zip(phi.args, phi.targets, strict=True) if t is loop.latch)
            addition = _addition(again, phi, loop, _DEPTH, set())
            place = program.place(addition) if addition is not None else None
            if place is not None:
                text = f"this sum is rounded to {_NAMES[phi.type.kind]} in every step of the loop"
                context.findings.add("half-accumulator", place, text, program.kernel.host_name)


def _addition(value: Value, phi: Instr, loop: Loop, depth: int, seen: set[Instr]) -> Instr | None:
    """The addition between a step's value and the next step's; None where there is none."""
    if not isinstance(value, Instr) or depth == 0 or value in seen or value is phi or value.block not in loop.blocks:
        return None
    seen.add(value)
    if _adds(value):
        sums = [arg for arg in _terms(value) if _reaches(arg, phi, loop, depth, set())]
        others = [arg for arg in value.args if arg not in sums]
        # A counter adds constants; a rotation (x c - y s) adds what itself comes from the sum.
        adds = any(not isinstance(arg, Const) for arg in others) and phi not in made_of(others)
        return value if sums and adds else None
    for arg in value.args if value.op in _PASSED_ON else []:
        found = _addition(arg, phi, loop, depth - 1, seen)
        if found is not None:
            return found
    return None


def _reaches(value: Value, phi: Instr, loop: Loop, depth: int, seen: set[Instr]) -> bool:
    """Whether a value is the step's own, as it is or with something added."""
    if value is phi:
        return True
    if not isinstance(value, Instr) or depth == 0 or value in seen or value.block not in loop.blocks:
        return False
    seen.add(value)
    further = _terms(value) if _adds(value) else value.args if value.op in _PASSED_ON else []
    return any(_reaches(arg, phi, loop, depth - 1, seen) for arg in further)


def _terms(instr: Instr) -> list[Value]:
    """What an addition adds to: of `fma(a, b, c)` the c."""
    return instr.args[2:] if instr.op == "call" else instr.args


def _adds(instr: Instr) -> bool:
    return instr.op in ("fadd", "fsub") or (
        instr.op == "call" and instr.callee.startswith(("llvm.fma.", "llvm.fmuladd."))
    )


def _steps(loop: Loop) -> int:
    """How often a loop runs, where it counts from one constant to another; many where that is not plain."""
    many = 1 << 30
    test = loop.header.terminator
    compare = test.args[0] if test.args else None
    if not isinstance(compare, Instr) or compare.op != "icmp":
        return many
    counter, end = compare.args[0], constant(compare.args[1])
    if end is None or not isinstance(counter, Instr) or counter.op != "phi" or counter.block is not loop.header:
        return many
    for arg, source in zip(counter.args, counter.targets, strict=True):
        if source is loop.latch:
            step = constant(arg.args[1]) if isinstance(arg, Instr) and arg.op == "add" else None
        else:
            start = constant(arg)
    if not step or start is None:
        return many
    return abs(end - start) // abs(step)
