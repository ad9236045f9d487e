"""What softmax and log_softmax share: arguments, launches over rows or columns."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.launch import row_launch
from metalcore.ops.base.op import FLOATS, Benchmark, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

GROUPS = 4
"""Groups of dimensions that a mask may be broadcast over in turns; a mask with more of them is written out."""


def prepare(
    op: str, input: Any, dim: int | None, stacklevel: int, dtype: Any, mask: Any, causal: bool
) -> tuple[Any, Any, int, bool, str, str]:
    """The public arguments, checked, as the op takes them: the dimension is counted from the end."""
    source = check_float(op, "input", input)
    rank = len(input.shape)
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
        message = f"Implicit dimension choice for {op} has been deprecated. Change the call to include dim=X."
        warnings.warn(message, stacklevel=stacklevel)
    from_end = check_dim(op, dim, rank)
    if causal and rank < 2:
        refuse(op, "input", "of two dimensions or more where causal is set", f"of shape {tuple(input.shape)}")
    if mask is not None and rank > GROUPS + 1:
        mask = _fitting(op, mask, tuple(input.shape), from_end, source)
    return input, mask, from_end, bool(causal), source, source if dtype is None else _wanted(op, dtype, source)


def check_dim(op: str, dim: Any, rank: int) -> int:
    """A dimension, counted from the end."""
    if not isinstance(dim, int) or not -max(rank, 1) <= dim < max(rank, 1):
        refuse(op, "dim", f"a dimension of the input, which has {rank}", repr(dim))
    return dim if dim < 0 else dim - max(rank, 1)


def _wanted(op: str, dtype: Any, source: str) -> str:
    """The name of a dtype of any framework."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
    if name not in FLOATS and not name == source == "float64":
        refuse(op, "dtype", "float32, float16 or bfloat16, or float64 where the input is", name)
    return name


def check_mask(op: str, mask: Any, shape: tuple[int, ...], source: str) -> None:
    kind = check_float(op, "mask", mask)
    if (kind == "float64") != (source == "float64"):
        refuse(op, "mask", f"of a dtype that goes with the input's, {source}", f"of dtype {kind}")
    own = tuple(mask.shape)
    if len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own[::-1], shape[::-1], strict=False)):
        refuse(op, "mask", f"of a shape that broadcasts to the input's, {shape}", f"of shape {own}")


def _fitting(op: str, mask: Any, shape: tuple[int, ...], dim: int, source: str) -> Any:
    """The mask, written out where it is broadcast over more groups of dimensions than a kernel knows."""
    check_mask(op, mask, shape, source)
    if len(collapse(shape, tuple(mask.shape), dim).groups) <= GROUPS:
        return mask
    if hasattr(mask, "expand"):
        return mask.expand(shape)
    return (np if isinstance(mask, np.ndarray) else sys.modules["mlx.core"]).broadcast_to(mask, shape)


class Spread(NamedTuple):
    """How a mask lies over the input: (size, step in the mask) of groups of dimensions, and the reduced one's step."""

    groups: tuple[tuple[int, int], ...]
    step: int

    def numbers(self) -> dict[str, int]:
        """Sizes of the last three groups, steps of all four, by the kernel's names."""
        groups = ((1, 0),) * (GROUPS - len(self.groups)) + self.groups
        sizes = {f"size{i}": size for i, (size, _) in enumerate(groups) if i}
        return sizes | {f"step{i}": step for i, (_, step) in enumerate(groups)}


NO_MASK = Spread((), 0)


def collapse(shape: tuple[int, ...], mask: tuple[int, ...], dim: int) -> Spread:
    """Neighbouring dimensions that a contiguous mask steps through evenly become one; the reduced one is left out."""
    mask = (1,) * (len(shape) - len(mask)) + mask
    steps, step = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        steps[i] = 0 if mask[i] == 1 else step
        step *= mask[i]
    groups: list[tuple[int, int]] = []
    for i, size in enumerate(shape):
        if i == len(shape) + dim or size == 1:
            continue
        if groups and groups[-1][1] == steps[i] * size:
            groups[-1] = (groups[-1][0] * size, steps[i])
        else:
            groups.append((size, steps[i]))
    return Spread(tuple(groups), steps[dim] if shape else 0)


class View(NamedTuple):
    """The input as outer x n x inner, reduced over n."""

    outer: int
    n: int
    inner: int

    @staticmethod
    def of(shape: Sequence[int], dim: int, count: int = 1) -> View:
        """`count` dimensions from `dim`, which counts from the end, are reduced."""
        end = len(shape) + dim + count
        return View(math.prod(shape[: end - count]), math.prod(shape[end - count : end]), math.prod(shape[end:]))


def column_launch(run: Runtime, op: str, dtype: str, view: View) -> tuple[tuple[int, int], tuple[int]]:
    """For a kernel that gives a column to one thread: threadgroups and the size of one."""
    most: int = policy(op, run.family, dtype)["column_threads"]
    threads = min(most, max(32, -(-view.inner // 32) * 32))
    return (-(-view.inner // threads), view.outer), (threads,)


class Kernels:
    """The four kernels of one noun, and its plans."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        known = ("has_mask", "mask_walks", "is_causal", "query_walks")
        self.rows = Kernel(noun, f"{noun}_rows", (*known[:3], *(("keeps_row",) if noun == "softmax" else ())))
        self.columns = Kernel(noun, f"{noun}_columns", known)
        self.rows_backward = Kernel(noun, f"{noun}_rows_backward", known[2:3])
        self.columns_backward = Kernel(noun, f"{noun}_columns_backward", known[2:])

    def forward(
        self, run: Runtime, x: Any, mask: Any, dim: int, causal: bool, source: str, dtype: str
    ) -> tuple[Any, ...]:
        shape = tuple(x.shape) or (1,)
        view = View.of(shape, dim)
        queries = shape[-2] if causal else 1
        x = run.contiguous(x)
        spread, kind = NO_MASK, source
        if mask is not None:
            check_mask(self.noun, mask, tuple(x.shape), source)
            mask, kind = run.contiguous(mask), run.dtype(mask)
            spread = collapse(shape, tuple(mask.shape), dim)
        out = Out(tuple(x.shape), dtype)
        flags: tuple[bool, ...] = (mask is not None, spread.step != 0, causal)
        if _is_rows(view, dim, causal):
            vector, group = (1, (32,)) if causal else row_launch(run, self.noun, source, view.n)
            if self.noun == "softmax":
                flags = (*flags, view.n <= policy(self.noun, run.family, source)["keeps"])
            arguments = dict(x=x, mask=mask, y=out, width=view.n, queries=queries, **spread.numbers())
            wide = (source, dtype, kind, vector)
            return tuple(run.launch(self.rows, wide, flags, arguments, (view.outer,), group))
        groups, group = column_launch(run, self.noun, source, view)
        arguments = dict(x=x, mask=mask, y=out, n=view.n, inner=view.inner, queries=queries, keys=shape[-1])
        arguments |= dict(spread.numbers(), mask_stride=spread.step)
        types = (source, dtype, kind)
        return tuple(run.launch(self.columns, types, (*flags, dim == -2), arguments, groups, group))

    def backward(
        self, run: Runtime, grad_y: Any, y: Any, dim: int, causal: bool, source: str, wanted: Sequence[bool]
    ) -> tuple[Any, ...]:
        shape, dtype = tuple(y.shape) or (1,), run.dtype(y)
        view = View.of(shape, dim)
        queries = shape[-2] if causal else 1
        g, y = run.contiguous(grad_y), run.contiguous(y)
        out = Out(tuple(y.shape), source)
        if _is_rows(view, dim, causal):
            vector, group = (1, (32,)) if causal else row_launch(run, self.noun, source, view.n)
            arguments = dict(g=g, y=y, dx=out, width=view.n, queries=queries)
            types = (source, dtype, vector)
            return tuple(run.launch(self.rows_backward, types, (causal,), arguments, (view.outer,), group))
        groups, group = column_launch(run, self.noun, source, view)
        arguments = dict(g=g, y=y, dx=out, n=view.n, inner=view.inner, queries=queries, keys=shape[-1])
        flags = (causal, dim == -2)
        return tuple(run.launch(self.columns_backward, (source, dtype), flags, arguments, groups, group))


def _is_rows(view: View, dim: int, causal: bool) -> bool:
    """Elements that are reduced lie side by side; a causal row is one over the keys."""
    return dim == -1 or (view.inner == 1 and not causal)


SIZES = ((1, 32000), (4096, 128), (512, 768), (2048, 2048), (32, 128256))


def benchmarks() -> list[Benchmark]:
    """Rows of attention scores and of vocabularies, and a dimension that is not the last."""

    def one(rows: int, width: int, dim: int) -> Benchmark:
        def arguments(torch: Any, dtype: Any) -> Any:
            return (torch.randn(rows, width, dtype=dtype), dim), {}

        label = f"{rows}x{width}" if dim == -1 else f"{rows}x{width} dim {dim}"
        return Benchmark(label, arguments, rows * width, targets={"*": 1.0})

    return [one(rows, width, -1) for rows, width in SIZES] + [one(1024, 1024, 0)]


def declare(noun: str, summary: str) -> Op:
    """The op of one noun, which is a function of torch.nn.functional too."""
    kernels = Kernels(noun)

    def accepts(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> str:
        if dtype_name(input) not in FLOATS:
            return f"{noun} takes {', '.join(FLOATS)}"
        if dtype is not None and str(dtype).rpartition(".")[2] not in FLOATS:
            return f"dtype={dtype} is torch's alone"
        return ""

    return Op(
        noun,
        summary,
        Stage("(Tensor x, Tensor? mask, int dim, bool causal, str source, str dtype) -> Tensor y", kernels.forward),
        Stage(
            "(Tensor grad_y, Tensor y, int dim, bool causal, str source, bool[] wanted) -> Tensor dx", kernels.backward
        ),
        same_gradient=(("mask", "x"),),
        batched=("x",),
        namesake=f"torch.nn.functional.{noun}",
        accepts=accepts,
        override_from=1 << 18,
        benchmarks=benchmarks(),
    )
