"""Sums at the places of an index along one dimension: kernels/scatter_add.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.index import check_index, explain_index
from metalcore.ops.base.indexed import add_columns, benchmarks, check_dim, left_to_torch, pick
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

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
    if not at == given == covered and 0 not in covered:
        if any(a > b for a, b in zip(covered, given, strict=True)):
            refuse("scatter_add", "index", f"no larger than src {given}", f"of shape {covered}")
        if any(size > at[d] for d, size in enumerate(covered) if d != dim):
            refuse(
                "scatter_add", "index", f"no larger than the input {at} beside dimension {dim}", f"of shape {covered}"
            )
    if covered != given:
        src = src[tuple(slice(0, size) for size in covered)]
    return OP(input, index, src, dim)


@stage("(Tensor input, Tensor index, Tensor src, int dim) -> Tensor out")
def forward(run: Runtime, input: Any, index: Any, src: Any, dim: int) -> tuple[Any, ...]:
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
        dict(index=run.contiguous(index), errors=Out((blocks, 3), "int64"), count=count, n=n, each=each),
        (blocks,),
        (chosen["threads"],),
    )
    run.check_errors(errors, lambda place, value: explain_index("scatter_add", "index", place, value, n))
    return (add_columns(run, "scatter_add", input, shape, index, src, dim),)


def _copied(run: Runtime, x: Any) -> Any:
    """A copy: what an op returns must not be its input."""
    dtype, shape = run.dtype(x), tuple(x.shape)
    count, each = math.prod(shape), policy("indexed", run.family, dtype)["copy_chunk"]
    arguments = dict(x=run.contiguous(x), y=Out(shape, dtype), count=count, each=each)
    threads = policy("indexed", run.family, dtype)["threads"]
    (out,) = run.launch(COPY, (dtype,), (), arguments, (-(-count // each),), (threads,))
    return out


@stage("(Tensor grad_out, Tensor index, Tensor src, int dim, bool[] wanted) -> (Tensor dinput, Tensor dsrc)")
def backward(run: Runtime, grad_out: Any, index: Any, src: Any, dim: int, wanted: Sequence[bool]) -> tuple[Any, ...]:
    dtype = run.dtype(grad_out)
    dx = _copied(run, grad_out) if wanted[0] else run.empty((0,), dtype)
    if not wanted[1]:
        return dx, run.empty((0,), dtype)
    at, covered = tuple(grad_out.shape), tuple(index.shape)
    if any(size < at[d] for d, size in enumerate(covered) if d != dim):
        grad_out = grad_out[tuple(slice(None) if d == dim else slice(0, s) for d, s in enumerate(covered))]
    return dx, pick(run, "scatter_add", grad_out, index, dim, covered, False, "index")


def accepts(input: Any, dim: Any, index: Any, src: Any, **named: Any) -> str:
    fits = tuple(index.shape) == tuple(src.shape)
    return left_to_torch(input, dim, index, named) or ("" if fits else "src is larger than the index")


OP = Op(
    "scatter_add",
    "x with src added at the places of an index along one dimension",
    forward,
    backward,
    namesake="torch.scatter_add",
    accepts=accepts,
    benchmarks=benchmarks(
        lambda torch, x, dim, n, shape: (x, dim, torch.randint(0, n, shape), torch.randn(shape).to(x.dtype)),
        *((4096, 512, 64, 1), (2048, 1024, 1024, 0)),
    ),
)
