"""Products of matrices with more digits than float32 has: kernels/precise_matmul.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import promoted
from metalcore.ops.precise.base import product
from metalcore.ops.precise.base.product import check_product
from metalcore.ops.precise.base.reduce import check_precision, permuted
from metalcore.runtimes.runtime import Runtime

__all__ = ["matmul"]


def matmul(a: Any, b: Any, *, precision: str = "float-float", pair: bool = False) -> Any:
    """a @ b of matrices or batches of them, in float32; on one side a single matrix may stand for a batch.

    `precision` is "float32", "float-float" (each sum as if computed with twice the digits) or "exact" (each sum rounded
    once). With `pair` the result is (high, low).

    >>> import numpy as np, metalcore
    >>> a = np.array([[1e8, 1.0, -1e8]], np.float32)
    >>> metalcore.precise.matmul(a, np.ones((3, 2), np.float32))
    array([[1., 1.]], dtype=float32)
    """
    check_precision("precise.matmul", precision, pair, ("a", a), ("b", b))
    check_product("precise.matmul", a, b)
    found = MATMUL(a, b, precision, bool(pair))
    return found if pair else found[0]


@stage("(Tensor a, Tensor b, str precision, bool pair) -> (Tensor high, Tensor low)")
def forward(run: Runtime, a: Any, b: Any, precision: str, pair: bool) -> tuple[Any, ...]:
    return product.matmul(run, a, b, precision=precision, pair=pair)


@stage("(Tensor grad_high, Tensor a, Tensor b, str precision, bool[] wanted) -> (Tensor da, Tensor db)")
def backward(run: Runtime, grad_high: Any, a: Any, b: Any, precision: str, wanted: Sequence[bool]) -> tuple[Any, ...]:
    """da = g b^T and db = a^T g, in the same precision; a matrix that stood for a batch gets the sum over it."""
    dtype, grad = run.dtype(a), grad_high
    a, b = promoted(run, a), promoted(run, b)  # the gradient has more digits than a half
    da = db = run.empty((0,), dtype)
    if wanted[0]:
        left, right = grad, b.swapaxes(-1, -2)
        if len(b.shape) > 2 and len(a.shape) == 2:
            left, right = _side_by_side(run, grad), _stacked(run, right)
        da = run.cast(product.matmul(run, left, right, precision=precision)[0], dtype)
    if wanted[1]:
        left, right = a.swapaxes(-1, -2), grad
        if len(a.shape) > 2 and len(b.shape) == 2:
            left, right = _stacked(run, a).swapaxes(-1, -2), _stacked(run, grad)
        db = run.cast(product.matmul(run, left, right, precision=precision)[0], dtype)
    return da, db


def _stacked(run: Runtime, batch: Any) -> Any:
    """The matrices of a batch as one, with the same columns."""
    return run.contiguous(batch).reshape(math.prod(batch.shape[:-1]), batch.shape[-1])


def _side_by_side(run: Runtime, batch: Any) -> Any:
    """The matrices of a batch as one, with the same rows."""
    rank, (rows, columns) = len(batch.shape), batch.shape[-2:]
    turned = permuted(batch, [rank - 2, *range(rank - 2), rank - 1])
    return run.contiguous(turned).reshape(rows, math.prod(batch.shape[:-2]) * columns)


MATMUL = Op(
    "precise_matmul",
    "a product of matrices in float-float, or with sums without error",
    forward,
    backward,
    no_gradient=("low",),
)
OPS = (MATMUL,)
