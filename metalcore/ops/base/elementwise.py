"""What ops that compute each element by itself share: one plan, checks, and the sizes they are measured at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import FLOATS, Benchmark, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

ROW = 1 << 30  # elements that one row of the grid covers: as in kernels/elementwise.h
APPROXIMATIONS = ("none", "tanh")


def sweep(
    run: Runtime,
    kernel: Kernel,
    constants: tuple[object, ...],
    arrays: Mapping[str, Any],
    outputs: Sequence[str],
    **numbers: float,
) -> tuple[Any, ...]:
    """Launch a kernel of kernels/elementwise.h: arrays of one shape and dtype in, `outputs` like them out, all by the
    names of the kernel's parameters."""
    first = next(iter(arrays.values()))
    dtype, shape = run.dtype(first), tuple(first.shape)
    count = math.prod(shape)
    chosen = policy("elementwise", run.family, dtype)
    vector: int = chosen["vector"]
    threads: int = chosen["threads"]
    groups = (-(-min(count, ROW) // (threads * vector)), -(-count // ROW))
    arguments = {name: run.contiguous(array) for name, array in arrays.items()}
    arguments |= dict.fromkeys(outputs, Out(shape, dtype))
    arguments |= dict(count=count, **numbers)
    return tuple(run.launch(kernel, (dtype, vector), constants, arguments, groups, (threads, 1)))


def check_alike(op: str, run: Runtime, first: Any, **others: Any) -> str:
    """The dtype that all arrays have. Plans call it, for autocast may change what the caller gave."""
    dtype: str = run.dtype(first)
    for name, array in others.items():
        if array is not None and run.dtype(array) != dtype:
            refuse(op, name, f"of dtype {dtype}, as the first input is", f"of dtype {run.dtype(array)}")
    return dtype


def check_approximate(op: str, approximate: Any) -> bool:
    """Whether gelu is to be computed with tanh."""
    if approximate not in APPROXIMATIONS:
        refuse(op, "approximate", "'none' or 'tanh'", repr(approximate))
    return bool(approximate == "tanh")


def left_to_torch(*arrays: Any) -> str:
    """For overrides: why arrays are left to torch, or an empty text."""
    for array in arrays:
        dtype = str(array.dtype).removeprefix("torch.")
        if dtype not in FLOATS:
            return f"dtype {dtype}"
    return ""


# Tokens by hidden or intermediate size of models in use.
SHAPES = ((1, 4096), (512, 768), (4096, 2048), (1024, 14336))


def declare(noun: str, summary: str, forward: Stage[...], backward: Stage[...], accepts: Callable[..., str]) -> Op:
    """An activation that is a function of torch.nn.functional too."""
    return Op(
        *(noun, summary, forward, backward),
        batched=("x",),
        namesake=f"torch.nn.functional.{noun}",
        accepts=accepts,
        override_from=1 << 18,
        benchmarks=benchmarks(lambda torch, dtype, shape: (torch.randn(shape, dtype=dtype),), 1.0),
    )


def benchmarks(make: Callable[[Any, Any, tuple[int, int]], Any], target: float) -> list[Benchmark]:
    """`make(torch, dtype, shape)` gives the arguments for one of the sizes."""

    def sized(shape: tuple[int, int]) -> Callable[[Any, Any], Any]:
        return lambda torch, dtype: (make(torch, dtype, shape), {})

    return [Benchmark(f"{s[0]}x{s[1]}", sized(s), s[0] * s[1], targets={"*": target}) for s in SHAPES]
