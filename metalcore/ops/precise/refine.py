"""Systems of equations to full float32 accuracy, by iterative refinement: kernels/precise_refine.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base import lu
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import check_square, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.result import batch_element
from metalcore.ops.precise.base.reduce import check_precision
from metalcore.ops.precise.base.refine import refined
from metalcore.runtimes.runtime import Runtime

__all__ = ["solve"]


def solve(A: Any, B: Any, *, precision: str = "float-float", pair: bool = False) -> Any:
    """X of A X = B, as torch.linalg.solve; A is factorised in float32, and residuals in float-float ("exact": with one
    rounding) correct the result: up to a condition of 1e7 or so it is right to float32's last digit.

    "float32" is the plain solution. With `pair` the result is (high, low).

    >>> import numpy as np, metalcore
    >>> metalcore.precise.solve(np.array([[2.0, 1.0], [1.0, 3.0]], np.float32), np.array([3.0, 5.0], np.float32))
    array([0.8, 1.4], dtype=float32)
    """
    op = "precise.solve"
    check_square(op, "A", A)
    check_precision(op, precision, pair, ("A", A), ("B", B))
    is_vector = len(B.shape) == 1 or (len(B.shape) == len(A.shape) - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    sides = B[..., None] if is_vector else B
    if len(sides.shape) < 2 or sides.shape[-2] != A.shape[-1]:
        refuse(op, "B", f"of {A.shape[-1]} rows as A is", f"of shape {tuple(B.shape)}")
    found = SOLVE(*broadcast(op, A, sides), precision, bool(pair))[: 2 if pair else 1]
    parts = tuple(x[..., 0] for x in found) if is_vector else tuple(found)
    return parts if pair else parts[0]


@stage("(Tensor A, Tensor B, str precision, bool pair) -> (Tensor high, Tensor low, Tensor factors, Tensor pivots)")
def forward(run: Runtime, A: Any, B: Any, precision: str, pair: bool) -> tuple[Any, ...]:
    a, b = promoted(run, A), promoted(run, B)
    factors, pivots, info = lu.factor(run, a)
    is_batch = len(A.shape) > 2
    run.check_info(info, lambda at, _: _explain(at, is_batch))
    x, low = _solved(run, a, factors, pivots, b, False, precision)
    return x, low if pair else run.empty((0,), run.dtype(x)), factors, pivots


def _explain(position: int, is_batch: bool) -> str:
    where = batch_element("torch.linalg.solve", position, is_batch)
    return f"{where}The solver failed because the input matrix is singular."


def _solved(
    run: Runtime, a: Any, factors: Any, pivots: Any, b: Any, transposed: bool, precision: str
) -> tuple[Any, Any]:
    def plain(sides: Any) -> Any:
        return lu.solve_factored(run, factors, pivots, sides, transposed)

    if precision == "float32":
        return plain(b), run.empty((0,), run.dtype(b))
    return refined(run, a, b, plain, precision)


@stage(
    "(Tensor grad_high, Tensor A, Tensor high, Tensor factors, Tensor pivots, str precision, bool[] wanted)"
    " -> (Tensor dA, Tensor dB)"
)
def backward(
    run: Runtime,
    grad_high: Any,
    A: Any,
    high: Any,
    factors: Any,
    pivots: Any,
    precision: str,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """dB solves A^T dB = g, and dA = -dB X^T."""
    dtype = run.dtype(A)
    turned = run.contiguous(promoted(run, A).swapaxes(-1, -2))
    db, _ = _solved(run, turned, factors, pivots, run.contiguous(grad_high), True, precision)
    da = run.empty((0,), dtype)
    if wanted[0]:
        da = run.cast(matmul(run, run.contiguous(db), run.contiguous(high), transpose_b=True, alpha=-1.0), dtype)
    return da, run.cast(db, dtype)


SOLVE = Op("precise_solve", "A X = B with iterative refinement", forward, backward, kept=2, no_gradient=("low",))
OPS = (SOLVE,)
