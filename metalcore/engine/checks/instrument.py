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
    from metalcore.engine.codegen import llvm

    places: list[Place] = []
    program = Program(_wrapping(llvm.inline_scalar(kernel.ir)), kernel, places)
    for check in EARLY:
        check.add(program)
    program = Program(llvm.promote_scalar(program.text()), kernel, places)
    for check in (*LATE, *(ON_REQUEST[name] for name in also)):
        check.add(program)
    return program.text(), tuple(places)


def _wrapping(text: str) -> str:
    """Integers wrap as they do on a GPU, and an address may leave its array: what is wrong is found, not undefined."""
    return "\n".join(
        _FLAGS.sub("", line) if line.startswith("  ") and "= " in line else line for line in text.split("\n")
    )
