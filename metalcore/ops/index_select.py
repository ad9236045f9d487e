"""Slices picked along one dimension: kernels/index_select.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, refuse
from metalcore.ops.base.index import INDEX_TYPES, check_index
from metalcore.ops.base.indexed import add_columns, benchmarks, check_dim, left_to_torch, pick
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.runtime import Runtime


def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices of `input` along `dim` that `index` names, a vector or a single number, as torch.index_select.

    An index out of range raises IndexRangeError; on a GPU its slice is NaN (METALCORE_CHECK_GPU=1 makes it an error).
    The gradient is the same in every run.

    >>> import numpy as np, metalcore
    >>> metalcore.index_select(np.array([[1, 2], [3, 4]], np.float32), 0, np.array([1, 1]))
    array([[3., 4.],
           [3., 4.]], dtype=float32)
    """
    check_float("index_select", "input", input)
    check_index("index_select", "index", index)
    if len(index.shape) > 1:
        refuse("index_select", "index", "of one dimension", f"of shape {tuple(index.shape)}")
    if not input.shape and tuple(index.shape) not in ((), (1,)):
        refuse("index_select", "index", "one number where the input is one", f"of shape {tuple(index.shape)}")
    return OP(input, index, check_dim("index_select", tuple(input.shape), dim))


@stage("(Tensor input, Tensor index, int dim) -> Tensor out")
def forward(run: Runtime, input: Any, index: Any, dim: int) -> tuple[Any, ...]:
    shape = list(input.shape)
    if shape:
        shape[dim] = index.shape[0] if len(index.shape) else 1
    return (pick(run, "index_select", input, index, dim, tuple(shape), True, "index"),)


@stage("(Tensor grad_out, Tensor input, Tensor index, int dim) -> Tensor dinput")
def backward(run: Runtime, grad_out: Any, input: Any, index: Any, dim: int) -> tuple[Any, ...]:
    return (add_columns(run, "index_select", None, tuple(input.shape), index, grad_out, dim),)


def accepts(input: Any, dim: Any, index: Any, **named: Any) -> str:
    return left_to_torch(input, dim, index, named, INDEX_TYPES)


OP = Op(
    "index_select",
    "slices of x at an index along one dimension",
    forward,
    backward,
    namesake="torch.index_select",
    accepts=accepts,
    benchmarks=benchmarks(
        lambda torch, x, dim, n, shape: (x, dim, torch.randint(0, n, (shape[dim],))),
        *((32000, 768, 4096, 0), (4096, 1024, 512, 1)),
    ),
)
