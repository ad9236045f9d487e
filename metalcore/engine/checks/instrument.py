"""Adds the hooks of all checks to a kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from metalcore.engine.checks import accesses, arithmetic, finite, overflow, private, uninitialised
from metalcore.engine.checks.program import Program
from metalcore.engine.codegen.variant import Place
from metalcore.engine.frontend.model import ScalarKernel


class Check(Protocol):
    """A module of this folder."""

    def add(self, program: Program) -> None: ...


# While variables are still in memory, and after they went to registers.
EARLY: tuple[Check, ...] = (arithmetic, private, uninitialised)
LATE: tuple[Check, ...] = (overflow, accesses)
ON_REQUEST: dict[str, Check] = {"not-finite": finite}
_FLAGS = re.compile(r"(?<= )(?:nsw|nuw|nusw|inbounds) ")


def instrument(kernel: ScalarKernel, also: Sequence[str] = ()) -> tuple[str, tuple[Place, ...]]:
    """Inlined scalar IR with hooks, and what each number that they report stands for."""
    from metalcore.engine.codegen import llvm, own_arrays

    places: list[Place] = []
    tables_kept = own_arrays.guard(kernel.ir, private=False)  # inlining folds what it reads from them
    program = Program(_wrapping(llvm.inline_scalar(tables_kept)), kernel, places)
    for check in EARLY:
        check.add(program)
    # Variables that go to registers must not take accesses past them along.
    program = Program(llvm.promote_scalar(own_arrays.guard(program.text())), kernel, places)
    for check in (*LATE, *(ON_REQUEST[name] for name in also)):
        check.add(program)
    return program.text(), tuple(places)


def _wrapping(text: str) -> str:
    """Integers wrap as they do on a GPU, and an address may leave its array: what is wrong is found, not undefined."""
    return "\n".join(
        _FLAGS.sub("", line) if line.startswith("  ") and "= " in line else line for line in text.split("\n")
    )
