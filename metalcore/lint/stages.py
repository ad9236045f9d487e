"""The rules of code that compiles, by what they look at: all of a source, a kernel, or a kernel after optimisation."""

from __future__ import annotations

from collections.abc import Callable

from metalcore.lint.context import Context
from metalcore.lint.program import Program
from metalcore.lint.rules import (
    accumulators,
    arrays,
    barriers,
    division,
    fences,
    float_float,
    indices,
    literals,
    parameters,
    reductions,
    shuffles,
    threadgroup_memory,
    vectors,
)

SOURCE: tuple[Callable[[Context], None], ...] = (literals.check, shuffles.check, indices.check)
PROGRAM: tuple[Callable[[Context, Program], None], ...] = (
    parameters.check_bindings,
    threadgroup_memory.check,
    barriers.check,
    fences.check,
    reductions.check,
    vectors.check,
    accumulators.check,
    float_float.check,
    division.check,
)
OPTIMISED: tuple[Callable[[Context, Program], None], ...] = (arrays.check,)
