"""Sums at the places of an index along one dimension: kernels/scatter_add.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.index import INDEX_TYPES, check_index, explain_index
from metalcore.ops.base.indexed import add_columns, check_dim, pick
from metalcore.ops.base.op import Benchmark, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

COPY = Kernel("scatter_add", "copy")
CHECK = Kernel("scatter_add", "check_index")


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """`input` with each element of `src` added at the place along `dim` that `index` names, as torch.scatter_add.

    Elements that meet in one place are added in the order of the index along `dim`, in float32: the result is the same
    in every run. An index out of range raises IndexRangeError; on a GPU it adds nothing (METALCORE_CHECK_GPU=1 makes
    it an error).

    >>> import numpy as np, metalcore
    >>> metalcore.scatter_add(np.zeros(3, np.float32), 0, np.array([2, 0, 2]), np.array([1, 2, 3], np.float32))
    array([2., 0., 4.], dtype=float32)
    """
    dtype = check_float("scatter_add", "input", input)
    check_index("scatter_add", "index", index)
    if check_float("scatter_add", "src", src) != dtype:
        refuse("scatter_add", "src", f"of the input's dtype {dtype}", f"of dtype {dtype_name(src)}")
    at, given, covered = tuple(input.shape), tuple(src.shape), tuple(index.shape)
    dim = check_dim("scatter_add", at, dim)
    if not len(at) == len(given) == len(covered):
        refuse("scatter_add", "index and src", f"of {len(at)} dimensions, as the input", f"{covered} and {given}")
    if 0 not in covered:
        if any(a > b for a, b in zip(covered, given, strict=True)):
            refuse("scatter_add", "index", f"no larger than src {given}", f"of shape {covered}")
        if any(size > at[d] for d, size in enumerate(covered) if d != dim):
            refuse(
                "scatter_add", "index", f"no larger than the input {at} beside dimension {dim}", f"of shape {covered}"
            )
    if covered != given:
        src = src[tuple(slice(0, size) for size in covered)]
    return OP(input, index, src, dim)


def forward(run: Any, input: Any, index: Any, src: Any, dim: int) -> tuple[Any, ...]:
    shape, count = tuple(input.shape), math.prod(index.shape)
    if count == 0:
        return (_copied(run, input),)
    n = (shape or (1,))[dim]
    chosen = policy("indexed", run.family, run.dtype(src))
    each = max(1024, -(-count // chosen["blocks"]))
    blocks = -(-count // each)
    (errors,) = run.launch(
        CHECK,
        (run.dtype(index),),
        (),
        (run.contiguous(index), Out((blocks, 3), "int64"), count, n, each),
        (blocks,),
        (chosen["threads"],),
    )
    run.check_errors(errors, lambda place, value: explain_index("scatter_add", "index", place, value, n))
    return (add_columns(run, "scatter_add", input, shape, index, src, dim),)


def _copied(run: Any, x: Any) -> Any:
    """A copy: what an op returns must not be its input."""
    dtype, shape = run.dtype(x), tuple(x.shape)
    count, each = math.prod(shape), policy("indexed", run.family, dtype)["copy_chunk"]
    arguments = (run.contiguous(x), Out(shape, dtype), count, each)
    threads = policy("indexed", run.family, dtype)["threads"]
    (out,) = run.launch(COPY, (dtype,), (), arguments, (-(-count // each),), (threads,))
    return out


def backward(run: Any, grad_out: Any, index: Any, src: Any, dim: int, wanted: Sequence[bool]) -> tuple[Any, ...]:
    dtype = run.dtype(grad_out)
    dx = _copied(run, grad_out) if wanted[0] else run.empty((0,), dtype)
    if not wanted[1]:
        return dx, run.empty((0,), dtype)
    at, covered = tuple(grad_out.shape), tuple(index.shape)
    if any(size < at[d] for d, size in enumerate(covered) if d != dim):
        grad_out = grad_out[tuple(slice(None) if d == dim else slice(0, s) for d, s in enumerate(covered))]
    return dx, pick(run, "scatter_add", grad_out, index, dim, covered, False, "index")


def reference(input: Any, dim: int, index: Any, src: Any) -> Any:
    import torch

    cut = src[tuple(slice(0, size) for size in index.shape)]  # torch has no gradient of a larger src
    return torch.scatter_add(input, dim, index.long(), cut)


def samples(draw: Draw) -> Sample:
    last = draw.size(most=300)
    shape = (*(draw.choice((1, 2, 5, 33)) for _ in range(draw.integer(0, 2))), last)
    dim = draw.integer(-len(shape), len(shape) - 1)
    covered = list(shape)
    covered[dim] = draw.choice((0, 1, 3, 40)) if shape[dim] else 0
    if draw.chance(0.3):
        covered = [max(1, n // 2) if n and i != dim % len(shape) else n for i, n in enumerate(covered)]
    given = tuple(n + 1 for n in covered) if draw.chance(0.2) else tuple(covered)
    index = draw.integers(tuple(covered), 0, max(0, shape[dim] - 1), draw.choice(INDEX_TYPES))
    return Sample((draw.floats(shape), dim, index, draw.floats(given)))


def accepts(input: Any, dim: Any, index: Any, src: Any, **named: Any) -> str:
    if named:
        return f"{', '.join(named)} is given"
    if dtype_name(input) not in ("float32", "float16", "bfloat16"):
        return f"input of dtype {dtype_name(input)}"
    if not isinstance(dim, int) or dtype_name(index) != "int64":
        return "index is not int64"
    return "" if tuple(index.shape) == tuple(src.shape) else "src is larger than the index"


def _make(rows: int, width: int, count: int, dim: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        shape = (rows, count) if dim else (count, width)
        index = torch.randint(0, width if dim else rows, shape)
        return (torch.randn(rows, width).to(dtype), dim, index, torch.randn(shape).to(dtype)), {}

    return make


OP = Op(
    noun="scatter_add",
    summary="x with src added at the places of an index along one dimension",
    forward=Stage("(Tensor input, Tensor index, Tensor src, int dim) -> Tensor out", forward),
    backward=Stage(
        "(Tensor grad_out, Tensor index, Tensor src, int dim, bool[] wanted) -> (Tensor dx, Tensor dsrc)", backward
    ),
    gradients=("input", "src"),
    reference=reference,
    samples=samples,
    namesake="torch.scatter_add",
    accepts=accepts,
    benchmarks=[
        Benchmark(f"dim {dim} {rows}x{width} {count}", _make(rows, width, count, dim), count * (rows if dim else width))
        for rows, width, count, dim in ((4096, 512, 64, 1), (2048, 1024, 1024, 0))
    ],
)
