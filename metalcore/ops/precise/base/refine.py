"""Iterative refinement: a system is solved in float32; its residual, found with more digits, gives corrections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metalcore.ops.precise.base.product import residual
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

CORRECT = Kernel("precise_refine", "precise_correct", ("is_first",))
STEPS = 6  # an error of condition * 2^-24 a step: enough up to a condition of 1e7


def refined(
    run: Runtime, a: Any, b: Any, solve: Callable[[Any], Any], precision: str, steps: int = STEPS
) -> tuple[Any, Any]:
    """X of a X = b as a pair, where `solve(b)` finds X in float32; all are contiguous float32 arrays with the same
    leading dimensions. A column stops where a correction is not half of the one before."""
    dtype, shape = run.dtype(b), tuple(b.shape)
    *leading, rows, columns = shape
    threads = policy("precise", run.family, dtype)["column_threads"]
    groups = (-(-columns // threads), math.prod(leading), 1)
    x, low, size = solve(b), None, None
    for step in range(steps):
        d = run.contiguous(solve(residual(run, a, x, low, b, precision=precision)))
        outs = dict(high=Out(shape, dtype), low=Out(shape, dtype), new_size=Out((*leading, columns), dtype))
        arguments = dict(x=run.contiguous(x), x_low=low, d=d, size=size, **outs, rows=rows, columns=columns)
        x, low, size = run.launch(CORRECT, (dtype,), (step == 0,), arguments, groups, (threads, 1, 1))
    return x, low
