"""The logarithm of a sum of exponentials: kernels/logsumexp.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.launch import accumulator, row_launch
from metalcore.ops.base.op import FLOATS, Op, stage
from metalcore.ops.base.softmax import View, benchmarks, check_dim, column_launch
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

ROWS = Kernel("logsumexp", "logsumexp_rows")
ROWS_BACKWARD = Kernel("logsumexp", "logsumexp_rows_backward")
COLUMNS = Kernel("logsumexp", "logsumexp_columns")
COLUMNS_BACKWARD = Kernel("logsumexp", "logsumexp_columns_backward")


def logsumexp(input: Any, dim: int | Sequence[int], keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over one or several dimensions, without overflow.

    As torch.logsumexp. Where all of a row is -inf the result is -inf, and its gradient 0.

    >>> import numpy as np, metalcore
    >>> metalcore.logsumexp(np.full((1, 2), 1000.0, np.float32), -1)
    array([1000.6932], dtype=float32)
    """
    check_float("logsumexp", "input", input)
    rank = len(input.shape)
    given = (dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(rank))
    dims = sorted([check_dim("logsumexp", d, rank) for d in given])
    if len(set(dims)) < len(dims):
        refuse("logsumexp", "dim", "without a dimension twice", given)
    if rank == 0:
        return OP(input, -1, 0, False)
    if dims[-1] - dims[0] < len(dims):
        return OP(input, dims[0], len(dims), keepdim)
    others = [i for i in range(rank) if i - rank not in dims]
    moved = [*others, *(d + rank for d in dims)]
    found = OP(
        input.permute(moved) if hasattr(input, "permute") else input.transpose(moved), -len(dims), len(dims), False
    )
    return found.reshape([1 if i - rank in dims else n for i, n in enumerate(input.shape)]) if keepdim else found


@stage("(Tensor x, int dim, int count, bool keepdim) -> (Tensor y, Tensor exact)")
def forward(run: Runtime, x: Any, dim: int, count: int, keepdim: bool) -> tuple[Any, ...]:
    """`count` dimensions from `dim`, which counts from the end, are reduced."""
    dtype = run.dtype(x)
    view = View.of(tuple(x.shape), dim, count)
    at = len(x.shape) + dim
    shape = (*x.shape[:at], *((1,) * count if keepdim else ()), *x.shape[at + count :]) if count else ()
    x = run.contiguous(x)
    out, exact = Out(shape, dtype), Out((view.outer * view.inner,), accumulator(dtype))
    if view.inner == 1:
        vector, group = row_launch(run, "logsumexp", dtype, view.n)
        return tuple(
            run.launch(ROWS, (dtype, vector), (), dict(x=x, y=out, exact=exact, width=view.n), (view.outer,), group)
        )
    groups, threads = column_launch(run, "logsumexp", dtype, view)
    return tuple(
        run.launch(COLUMNS, (dtype,), (), dict(x=x, y=out, exact=exact, n=view.n, inner=view.inner), groups, threads)
    )


@stage("(Tensor grad_y, Tensor x, Tensor exact, int dim, int count) -> Tensor dx")
def backward(run: Runtime, grad_y: Any, x: Any, exact: Any, dim: int, count: int) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    view = View.of(tuple(x.shape), dim, count)
    g, x = run.contiguous(grad_y), run.contiguous(x)
    out = Out(tuple(x.shape), dtype)
    if view.inner == 1:
        vector, group = row_launch(run, "logsumexp", dtype, view.n)
        arguments = dict(g=g, x=x, exact=exact, dx=out, width=view.n)
        return tuple(run.launch(ROWS_BACKWARD, (dtype, vector), (), arguments, (view.outer,), group))
    groups, threads = column_launch(run, "logsumexp", dtype, view)
    return tuple(
        run.launch(
            COLUMNS_BACKWARD,
            (dtype,),
            (),
            dict(g=g, x=x, exact=exact, dx=out, n=view.n, inner=view.inner),
            groups,
            threads,
        )
    )


def accepts(input: Any, dim: Any, keepdim: bool = False) -> str:
    return "" if dtype_name(input) in FLOATS else f"logsumexp takes {', '.join(FLOATS)}"


OP = Op(
    "logsumexp",
    "log(sum(exp(x))) over one or several dimensions",
    forward,
    backward,
    kept=1,
    batched=("x",),
    namesake="torch.logsumexp",
    accepts=accepts,
    override_from=1 << 15,
    benchmarks=benchmarks(),
)
