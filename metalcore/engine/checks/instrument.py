"""Adds the hooks of all checks to a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from metalcore.engine.checks import accesses, arithmetic, finite, overflow, private, uninitialised
from metalcore.engine.checks.program import Program
from metalcore.engine.ir import Instr, Module
from metalcore.engine.ir.registers import without_variables
from metalcore.engine.model import Place, ScalarKernel


class Check(Protocol):
    """A module of this folder."""

    def add(self, program: Program) -> None: ...


# While variables are still in memory, and after they went to registers.
EARLY: tuple[Check, ...] = (arithmetic, private, uninitialised)
LATE: tuple[Check, ...] = (overflow, accesses)
ON_REQUEST: dict[str, Check] = {"not-finite": finite}
_PROMISES = frozenset(("nsw", "nuw", "nusw", "inbounds"))


def instrument(raw: Module, kernel: ScalarKernel, also: Sequence[str] = ()) -> tuple[Module, tuple[Place, ...]]:
    """Inlined scalar IR with hooks, and what each number that they report stands for."""
    from metalcore.engine.optimiser import llvm
    from metalcore.engine.optimiser.own_arrays import guard

    places: list[Place] = []
    guard(raw, private=False)  # inlining folds what it reads from tables
    inlined = llvm.inline_scalar(raw)
    without_variables(inlined.function)  # not before: LLVM folds `a / b` of a function called with 0
    program = Program(_wrapping(inlined), kernel, places, raw)
    for check in EARLY:
        check.add(program)
    hooked = program.finish()
    guard(hooked)  # variables that go to registers must not take accesses past them along
    program = Program(llvm.promote_scalar(hooked), kernel, places, raw)
    for check in (*LATE, *(ON_REQUEST[name] for name in also)):
        check.add(program)
    return program.finish(), tuple(places)


def _wrapping(module: Module) -> Module:
    """Integers wrap as they do on a GPU, and an address may leave its array: what is wrong is found, not undefined."""
    for function in module.defined():
        for instr in function.instructions():
            if instr.name:
                _wrap(instr)
    return module


def _wrap(instr: Instr) -> None:
    instr.without_flags(_PROMISES)
    if instr.rest is not None and "(" not in instr.rest:
        return
    for arg in instr.args:
        if isinstance(arg, Instr) and not arg.name and arg.flags:
            instr.changed()
            _wrap(arg)
