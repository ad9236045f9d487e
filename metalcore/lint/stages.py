"""The rules, by what they need to see: tokens, clang's errors, the syntax tree, or a kernel's data flow."""

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

TREE: tuple[Callable[[Context], None], ...] = (literals.check, shuffles.check)
PROGRAM: tuple[Callable[[Context, Program], None], ...] = (
    parameters.check_bindings,
    threadgroup_memory.check,
    barriers.check,
    fences.check,
    reductions.check,
    vectors.check,
    indices.check,
    accumulators.check,
    float_float.check,
    division.check,
)
OPTIMISED: tuple[Callable[[Context, Program], None], ...] = (arrays.check,)
