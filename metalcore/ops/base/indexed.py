"""What gather, index_select and scatter_add share: launches that pick elements and that sum at places of an index,
and benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metalcore.ops.base.check import dtype_name, refuse
from metalcore.ops.base.index import explain_index
from metalcore.ops.base.launch import accumulator, column_sum
from metalcore.ops.base.op import FLOATS, Benchmark
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

PICK = Kernel("gather", "pick", ("is_last",))
ADD_COLUMNS = Kernel("scatter_add", "add_columns", ("is_last",))
ADD_ROWS = Kernel("index_select", "add_rows")
IS_SHARED, IS_PART, HAS_START = 1, 2, 4  # as in the kernel


def check_dim(op: str, shape: tuple[int, ...], dim: Any) -> int:
    """`dim` counted from the front; a scalar counts as one dimension."""
    size = max(1, len(shape))
    if not isinstance(dim, int) or not -size <= dim < size:
        refuse(op, "dim", f"in {-size} to {size - 1}", repr(dim))
    return dim % size


def pick(run: Runtime, op: str, x: Any, index: Any, dim: int, shape: tuple[int, ...], shared: bool, name: str) -> Any:
    """x at `index` along `dim`, as an array of this shape."""
    dtype, sizes = run.dtype(x), tuple(x.shape) or (1,)
    m = (shape or (1,))[dim]
    outer, n, inner = math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :])
    x, index = run.contiguous(x), run.contiguous(index)
    is_last = inner == 1
    rows = outer if is_last else outer * m
    chosen = policy("indexed", run.family, dtype)
    each = max(1, -(-rows // chosen["blocks"]))
    blocks = -(-rows // each) if m and inner else 0
    out, errors = run.launch(
        PICK,
        (dtype, run.dtype(index)),
        (is_last,),
        dict(
            x=x,
            index=index,
            out=Out(shape, dtype),
            errors=Out((blocks, 3), "int64"),
            rows=rows,
            m=m,
            n=n,
            inner=inner,
            each=each,
            options=int(shared),
        ),
        (blocks,),
        (chosen["threads"],),
    )
    run.check_errors(errors, lambda place, value: explain_index(op, name, place, value, n))
    return out


def add_columns(run: Runtime, op: str, start: Any, shape: tuple[int, ...], index: Any, src: Any, dim: int) -> Any:
    """Sums of `src` at the places of `index` along `dim`, on top of `start` (or of zeros), in the type of `src`."""
    dtype, sizes = run.dtype(src), shape or (1,)
    of_index, shared = tuple(src.shape) or (1,), len(index.shape) != len(src.shape)
    outer, n, inner = math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :])
    index, src = run.contiguous(index), run.contiguous(src)
    outer_low, index_outer_low, index_outer_high = _levels(op, sizes[:dim], of_index[:dim])
    inner_low, index_inner_low, index_inner_high = _levels(op, sizes[dim + 1 :], of_index[dim + 1 :])
    is_last, is_exact = inner == 1, dtype == accumulator(dtype)
    if shared and not is_last and start is None:
        return _add_rows(run, shape, index, src, (outer, of_index[dim], n, inner))
    is_part = of_index[:dim] + of_index[dim + 1 :] != sizes[:dim] + sizes[dim + 1 :]
    flags = IS_SHARED * shared | IS_PART * is_part | HAS_START * (start is not None)
    threads = policy("indexed", run.family, dtype)["column_threads"]
    groups = (outer,) if is_last else (-(-inner // threads), outer)
    (sums,) = run.launch(
        ADD_COLUMNS,
        (dtype, run.dtype(index)),
        (is_last,),
        dict(
            start=src if start is None else run.contiguous(start),
            index=index,
            src=src,
            sums=Out(shape if is_exact else (1, math.prod(sizes)), accumulator(dtype)),
            outer=outer,
            m=of_index[dim],
            n=n,
            inner=inner,
            outer_low=outer_low,
            index_outer_low=index_outer_low,
            index_outer_high=index_outer_high,
            inner_low=inner_low,
            index_inner_low=index_inner_low,
            index_inner_high=index_inner_high,
            options=flags,
        ),
        groups if n else (0,),
        (threads,),
    )
    return sums if is_exact else column_sum(run, sums, shape, dtype)  # one row: it is only rounded


def _add_rows(run: Runtime, shape: tuple[int, ...], index: Any, src: Any, sizes: tuple[int, ...]) -> Any:
    """The same for one index that holds for all of outer and inner."""
    dtype, (outer, m, n, inner) = run.dtype(src), sizes
    ordered, order = run.sort(index)
    chosen = policy("indexed", run.family, dtype)
    each = max(1, -(-n // chosen["blocks"]))
    group = (min(chosen["most_threads"], max(32, -(-inner // 32) * 32)),)
    types = (dtype, run.dtype(index))
    arguments = dict(sorted=ordered, order=order, src=src, sums=Out(shape, dtype), m=m, n=n, inner=inner, each=each)
    groups = (-(-n // each), outer) if inner else (0,)
    (sums,) = run.launch(ADD_ROWS, types, (), arguments, groups, group)
    return sums


def _levels(op: str, sizes: tuple[int, ...], covered: tuple[int, ...]) -> tuple[int, int, int]:
    """Dimensions on one side as two: the size of the lower one, and what the index covers of the lower and the higher.

    A dimension that is covered in full is one with that before it.
    """
    split = max((i for i in range(1, len(sizes)) if sizes[i] != covered[i]), default=0)
    if any(sizes[i] != covered[i] for i in range(1, split)):
        refuse(op, "index", "smaller than the input in at most two neighbouring dimensions", f"of shape {covered}")
    return max(1, math.prod(sizes[split:])), math.prod(covered[split:]), math.prod(covered[:split])


def left_to_torch(input: Any, dim: Any, index: Any, named: dict[str, Any], kinds: tuple[str, ...] = ("int64",)) -> str:
    """For overrides: why arguments are left to torch, whose own function takes an index of these `kinds`."""
    if named:
        return f"{', '.join(named)} is given"
    if dtype_name(input) not in FLOATS:
        return f"input of dtype {dtype_name(input)}"
    if not isinstance(dim, int):
        return "dim is not a number"
    return "" if dtype_name(index) in kinds else f"index of dtype {dtype_name(index)}"


def benchmarks(make: Callable[..., tuple[Any, ...]], *sizes: tuple[int, int, int, int]) -> list[Benchmark]:
    """Sizes are rows, width, how many are picked along a dimension, and which. `make(torch, x, dim, n, shape)` gives
    the arguments: the index is below n, `shape` is that of what is picked."""

    def one(rows: int, width: int, count: int, dim: int) -> Benchmark:
        shape, n = ((rows, count), width) if dim else ((count, width), rows)

        def arguments(torch: Any, dtype: Any) -> Any:
            return make(torch, torch.randn(rows, width).to(dtype), dim, n, shape), {}

        return Benchmark(f"dim {dim} {rows}x{width} {count}", arguments, math.prod(shape))

    return [one(*size) for size in sizes]
