"""Elements picked along one dimension: kernels/gather.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.index import check_index
from metalcore.ops.base.indexed import add_columns, benchmarks, check_dim, left_to_torch, pick
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime


def gather(input: Any, dim: int, index: Any) -> Any:
    """The element of `input` along `dim` that each element of `index` names, as torch.gather: the shape is the index's.

    An index out of range raises IndexRangeError; on a GPU its element is NaN (METALCORE_CHECK_GPU=1 makes it an error).
    The gradient is the same in every run.

    >>> import numpy as np, metalcore
    >>> metalcore.gather(np.array([[1, 2], [3, 4]], np.float32), 1, np.array([[1, 1, 0], [0, 0, 1]]))
    array([[2., 2., 1.],
           [3., 3., 4.]], dtype=float32)
    """
    check_float("gather", "input", input)
    check_index("gather", "index", index)
    at, wanted = tuple(input.shape), tuple(index.shape)
    dim = check_dim("gather", at, dim)
    if len(wanted) != len(at):
        refuse("gather", "index", f"of {len(at)} dimensions, as the input", f"of shape {wanted}")
    cut = [slice(None) if d == dim else slice(0, size) for d, size in enumerate(wanted)]
    if any(size > at[d] for d, size in enumerate(wanted) if d != dim):
        if 0 not in wanted:
            refuse("gather", "index", f"no larger than the input {at} beside dimension {dim}", f"of shape {wanted}")
    elif any(size < at[d] for d, size in enumerate(wanted) if d != dim):
        input = input[tuple(cut)]
    return OP(input, index, dim)


@stage("(Tensor input, Tensor index, int dim) -> Tensor out")
def forward(run: Runtime, input: Any, index: Any, dim: int) -> tuple[Any, ...]:
    return (pick(run, "gather", input, index, dim, tuple(index.shape), False, "index"),)


@stage("(Tensor grad_out, Tensor input, Tensor index, int dim) -> Tensor dinput")
def backward(run: Runtime, grad_out: Any, input: Any, index: Any, dim: int) -> tuple[Any, ...]:
    return (add_columns(run, "gather", None, tuple(input.shape), index, grad_out, dim),)


def accepts(input: Any, dim: Any, index: Any, **named: Any) -> str:
    return left_to_torch(input, dim, index, named)


OP = Op(
    "gather",
    "elements of x at an index along one dimension",
    forward,
    backward,
    namesake="torch.gather",
    accepts=accepts,
    benchmarks=benchmarks(
        lambda torch, x, dim, n, shape: (x, dim, torch.randint(0, n, shape)),
        *((4096, 512, 64, 1), (2048, 1024, 1024, 0), (4096, 32000, 1, 1)),
    ),
)
