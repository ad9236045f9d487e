"""Adds the hooks of all checks to a kernel."""

from __future__ import annotations

from metalcore.engine.checks import arithmetic, uninitialised
from metalcore.engine.checks.program import Program
from metalcore.engine.codegen.variant import Place

CHECKS = (arithmetic, uninitialised)


def instrument(inlined: str) -> tuple[str, tuple[Place, ...]]:
    """Inlined scalar IR with hooks, and what each number that they report stands for."""
    program = Program(inlined)
    for check in CHECKS:
        check.add(program)
    return program.text(), tuple(program.places)
