"""Sums, dot products and norms with more digits than float32 has: kernels/precise_reduce.metal, precise_exact.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.arrange import check_dims
from metalcore.ops.precise.base.reduce import (
    Rows,
    back,
    check_precision,
    gradient,
    last,
    reduce,
    reduced_shape,
    size,
)
from metalcore.runtimes.runtime import Runtime

__all__ = ["dot", "norm", "sum"]


def sum(
    x: Any,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    precision: str = "float-float",
    pair: bool = False,
) -> Any:
    """The sum over `dim` (None: all), in float32.

    `precision` is "float32", "float-float" (twice the digits, then rounded) or "exact" (one rounding of the exact sum).
    With `pair` the result is (high, low): high + low has twice the digits.

    >>> import numpy as np, metalcore
    >>> x = np.array([1e8] + 1000 * [1.0] + [-1e8], np.float32)
    >>> float(metalcore.precise.sum(x)), float(x.sum())
    (1000.0, 992.0)
    """
    check_precision("precise.sum", precision, pair, ("x", x))
    dims = check_dims("precise.sum", dim, len(x.shape))
    return _given(SUM(x, list(dims), bool(keepdim), precision, bool(pair)), pair)


def norm(
    x: Any,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    precision: str = "float-float",
    pair: bool = False,
) -> Any:
    """The Euclidean norm over `dim` (None: all), in float32. No square overflows or is lost.

    `precision` and `pair` as for `sum`; "exact" is the correctly rounded norm, and has no pair.

    >>> import numpy as np, metalcore
    >>> float(metalcore.precise.norm(np.array([3.0, 4.0], np.float32)))
    5.0
    """
    check_precision("precise.norm", precision, pair, ("x", x))
    if pair and precision == "exact":
        refuse("precise.norm", "precision", "'float-float' where a pair is asked for", repr(precision))
    dims = check_dims("precise.norm", dim, len(x.shape))
    return _given(NORM(x, list(dims), bool(keepdim), precision, bool(pair)), pair)


def dot(x: Any, y: Any, *, precision: str = "float-float", pair: bool = False) -> Any:
    """The dot product over the last dimension, in float32; x and y have the same shape.

    `precision` and `pair` as for `sum`. "float-float" is as if computed with twice the digits, "exact" is the exact
    sum of the exact products, rounded once.

    >>> import numpy as np, metalcore
    >>> x, y = np.array([1e20, 3.0, -1e20], np.float32), np.array([1e18, 5.0, 1e18], np.float32)
    >>> metalcore.precise.dot(x, y, precision="exact").item()
    15.0
    """
    check_precision("precise.dot", precision, pair, ("x", x), ("y", y))
    if len(x.shape) == 0 or tuple(x.shape) != tuple(y.shape):
        refuse("precise.dot", "y", f"of the shape of x, {tuple(x.shape)}, with a last dimension", tuple(y.shape))
    return _given(DOT(x, y, precision, bool(pair)), pair)


def _given(found: tuple[Any, Any], pair: bool) -> Any:
    return found if pair else found[0]


def _over(kind: str, run: Runtime, x: Any, dims: Sequence[int], keepdim: bool, precision: str, pair: bool) -> Any:
    shape = tuple(x.shape)
    width = size(shape, dims)
    out = reduced_shape(shape, dims, keepdim)
    rows = run.contiguous(last(x, dims))
    return reduce(run, kind, rows, rows, Rows.alike(math.prod(out), width), out, precision, pair)


_OVER = "(Tensor x, int[] dim, bool keepdim, str precision, bool pair) -> (Tensor high, Tensor low)"


@stage(_OVER)
def sum_forward(run: Runtime, x: Any, dim: Sequence[int], keepdim: bool, precision: str, pair: bool) -> tuple[Any, ...]:
    return tuple(_over("sum", run, x, dim, keepdim, precision, pair))


@stage(_OVER)
def norm_forward(
    run: Runtime, x: Any, dim: Sequence[int], keepdim: bool, precision: str, pair: bool
) -> tuple[Any, ...]:
    return tuple(_over("norm", run, x, dim, keepdim, precision, pair))


@stage("(Tensor x, Tensor y, str precision, bool pair) -> (Tensor high, Tensor low)")
def dot_forward(run: Runtime, x: Any, y: Any, precision: str, pair: bool) -> tuple[Any, ...]:
    out, width = tuple(x.shape[:-1]), x.shape[-1]
    x, y = run.contiguous(x), run.contiguous(y)
    return reduce(run, "dot", x, y, Rows.alike(math.prod(out), width), out, precision, pair)


def _slopes(kind: str, run: Runtime, grad: Any, norms: Any, x: Any, dims: Sequence[int]) -> Any:
    """The gradient of x, moved back to where its dimensions were."""
    shape = tuple(x.shape)
    width, rows = size(shape, dims), run.contiguous(last(x, dims))
    sums = math.prod(reduced_shape(shape, dims, False))
    grad, norms = run.contiguous(grad), run.contiguous(norms)
    return run.contiguous(back(gradient(run, kind, grad, norms, rows, sums, width), dims))


@stage("(Tensor grad_high, Tensor x, int[] dim) -> Tensor dx")
def sum_backward(run: Runtime, grad_high: Any, x: Any, dim: Sequence[int]) -> tuple[Any, ...]:
    return (_slopes("sum", run, grad_high, grad_high, x, dim),)


@stage("(Tensor grad_high, Tensor x, Tensor high, int[] dim) -> Tensor dx")
def norm_backward(run: Runtime, grad_high: Any, x: Any, high: Any, dim: Sequence[int]) -> tuple[Any, ...]:
    return (_slopes("norm", run, grad_high, high, x, dim),)


@stage("(Tensor grad_high, Tensor x, Tensor y, bool[] wanted) -> (Tensor dx, Tensor dy)")
def dot_backward(run: Runtime, grad_high: Any, x: Any, y: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    last_one = (len(x.shape) - 1,)
    nothing = run.empty((0,), run.dtype(x))
    dx = _slopes("dot", run, grad_high, grad_high, y, last_one) if wanted[0] else nothing
    return dx, _slopes("dot", run, grad_high, grad_high, x, last_one) if wanted[1] else nothing


SUM = Op("precise_sum", "a sum in float-float, or without error", sum_forward, sum_backward, no_gradient=("low",))
NORM = Op(
    "precise_norm",
    "a Euclidean norm in float-float, or rounded once",
    norm_forward,
    norm_backward,
    no_gradient=("low",),
)
DOT = Op(
    "precise_dot", "a dot product in float-float, or without error", dot_forward, dot_backward, no_gradient=("low",)
)
OPS = (SUM, NORM, DOT)
