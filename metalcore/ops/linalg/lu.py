"""A = P L U with partial pivoting: kernels/linalg/lu.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.base.check import check_array, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.batches import expand
from metalcore.ops.linalg.base.lu import batches, factor, is_for_lanes, solve_factored, summed, transposed_copy
from metalcore.ops.linalg.base.lu_gradient import lu_gradient, parts_in_lanes, solve_gradient, unpack
from metalcore.ops.linalg.base.matrix import LANES, Batch, check_matrix, check_system, promoted
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

__all__ = ["lu", "lu_factor", "lu_factor_ex", "lu_solve"]
CHECK_PIVOTS = Kernel("linalg/lu_parts", "check_pivots")


def lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P L U: a permutation, a lower triangle with a diagonal of 1, an upper triangle. Without
    `pivot` rows are not exchanged, and P has no elements.

    >>> import numpy as np, metalcore
    >>> P, L, U = metalcore.linalg.lu(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32))
    >>> P, L, U
    (array([[0., 1.],
           [1., 0.]], dtype=float32), array([[1.  , 0.  ],
           [0.25, 1.  ]], dtype=float32), array([[4., 4.],
           [0., 1.]], dtype=float32))
    """
    check_matrix("linalg.lu", "A", A)
    return named("linalg_lu", "P L U", LU(A, bool(pivot)))


def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(LU, pivots): L, whose diagonal of 1 is not stored, and U in one matrix; row i was exchanged with row
    pivots[i] - 1, one after the other. What lu_solve takes. A zero on the diagonal of U is an error.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32))
    linalg_lu_factor(LU=array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32), pivots=array([2, 2], dtype=int32))
    """
    check_matrix("linalg.lu_factor", "A", A)
    return named("linalg_lu_factor", "LU pivots", LU_FACTOR(A, bool(pivot)))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): no error is raised; `info` is the number of the first zero on U's diagonal, or 0."""
    check_matrix("linalg.lu_factor_ex", "A", A)
    return named("linalg_lu_factor_ex", "LU pivots info", LU_FACTOR_EX(A, bool(pivot), bool(check_errors)))


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X of A X = B, where (LU, pivots) is what lu_factor gives for A; of A^T X = B with `adjoint`. Where not `left`, of
    X A = B or X A^T = B.

    >>> import numpy as np, metalcore
    >>> A, B = np.array([[1.0, 2.0], [4.0, 4.0]], np.float32), np.array([[5.0], [12.0]], np.float32)
    >>> metalcore.linalg.lu_solve(*metalcore.linalg.lu_factor(A), B)
    array([[1.],
           [2.]], dtype=float32)
    """
    op = "linalg.lu_solve"
    check_system(op, "LU", LU, B)
    if (kind := check_array(op, "pivots", pivots)) != "int32":
        refuse(op, "pivots", "of dtype int32, as lu_factor gives them", f"of dtype {kind}")
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        refuse(op, "pivots", f"of shape {tuple(LU.shape[:-1])}, as LU has it", f"of shape {tuple(pivots.shape)}")
    n, given = LU.shape[-1], B.shape[-2 if left else -1]
    if n != given:
        where = "rows" if left else "columns"
        refuse(op, "B", f"of {n} {where}, as LU of shape {tuple(LU.shape)} has", f"of shape {tuple(B.shape)}")
    LU, B = batches(op, LU, B)
    return LU_SOLVE(LU, expand(pivots, tuple(LU.shape[:-1])), B, bool(left), bool(adjoint))


def explain(op: str, is_batch: bool) -> Any:
    """What torch says of a zero on the diagonal of U."""
    return lambda at, order: (
        f"{batch_element(f'torch.linalg.{op}', at, is_batch)}U[{order},{order}] is zero and using it on lu_solve would "
        "result in a division by zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


@stage("(Tensor A, bool pivot) -> (Tensor LU, Tensor pivots)")
def forward_factor(run: Runtime, A: Any, pivot: bool) -> tuple[Any, ...]:
    factors, pivots, info = factor(run, promoted(run, A), pivot)
    run.check_info(info, explain("lu_factor", len(A.shape) > 2))
    return run.cast(factors, run.dtype(A)), pivots


@stage("(Tensor A, bool pivot, bool check_errors) -> (Tensor LU, Tensor pivots, Tensor info)")
def forward_factor_ex(run: Runtime, A: Any, pivot: bool, check_errors: bool) -> tuple[Any, ...]:
    factors, pivots, info = factor(run, promoted(run, A), pivot)
    if check_errors:
        run.check_info(info, explain("lu_factor_ex", len(A.shape) > 2))
    return run.cast(factors, run.dtype(A)), pivots, info


@stage("(Tensor grad_LU, Tensor LU, Tensor pivots) -> Tensor dA")
def backward_factor(run: Runtime, grad_LU: Any, LU: Any, pivots: Any) -> tuple[Any, ...]:
    grad, factors = promoted(run, grad_LU), promoted(run, LU)
    steps = min(LU.shape[-2:])
    _, lower, upper = unpack(run, factors, None)
    dlower, dupper = run.contiguous(grad[..., :steps]), run.contiguous(grad[..., :steps, :])
    return (run.cast(lu_gradient(run, lower, upper, pivots, dlower, dupper), run.dtype(LU)),)


@stage("(Tensor A, bool pivot) -> (Tensor P, Tensor L, Tensor U, Tensor pivots)")
def forward_lu(run: Runtime, A: Any, pivot: bool) -> tuple[Any, ...]:
    a, dtype = promoted(run, A), run.dtype(A)
    batch = Batch.of(a)
    if 0 not in a.shape and is_for_lanes(run, run.dtype(a), batch.number, batch.rows, batch.columns):
        *parts, pivots = parts_in_lanes(run, a, pivot)
    else:
        factors, pivots, _ = factor(run, a, pivot)
        parts = list(unpack(run, factors, pivots if pivot else None))
    return (*(run.cast(part, dtype) for part in parts), pivots)


@stage("(Tensor grad_L, Tensor grad_U, Tensor L, Tensor U, Tensor pivots) -> Tensor dA")
def backward_lu(run: Runtime, grad_L: Any, grad_U: Any, L: Any, U: Any, pivots: Any) -> tuple[Any, ...]:
    lower, upper, dlower, dupper = (promoted(run, x) for x in (L, U, grad_L, grad_U))
    return (run.cast(lu_gradient(run, lower, upper, pivots, dlower, dupper), run.dtype(L)),)


@stage("(Tensor LU, Tensor pivots, Tensor B, bool left, bool adjoint) -> Tensor X")
def forward_solve(run: Runtime, LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> tuple[Any, ...]:
    n, pivots = LU.shape[-1], run.contiguous(pivots)
    arguments = dict(pivots=pivots, errors=Out((1, 3), "int64"), count=math.prod(pivots.shape), rows=n)
    (errors,) = run.launch(CHECK_PIVOTS, (), (), arguments, (1,), (LANES,))
    run.check_errors(errors, lambda at, value: f"linalg.lu_solve: pivot {value} at {at} is not one of 1 to {n}")
    factors, b = promoted(run, LU), promoted(run, B)
    if left:
        x = solve_factored(run, factors, pivots, b, adjoint)
    else:  # A^T X^T = B^T
        x = transposed_copy(run, solve_factored(run, factors, pivots, transposed_copy(run, b), not adjoint))
    return (run.cast(x, run.dtype(B)),)


@stage("(Tensor grad_X, Tensor LU, Tensor pivots, Tensor X, bool left, bool adjoint) -> (Tensor dLU, Tensor dB)")
def backward_solve(
    run: Runtime, grad_X: Any, LU: Any, pivots: Any, X: Any, left: bool, adjoint: bool
) -> tuple[Any, ...]:
    factors, pivots, grad, x = promoted(run, LU), run.contiguous(pivots), promoted(run, grad_X), promoted(run, X)
    if not left:
        grad, x = transposed_copy(run, grad), transposed_copy(run, x)
    dfactors, db = solve_gradient(run, factors, pivots, x, grad, adjoint == left)
    if not left:
        db = transposed_copy(run, db)
    dtype = run.dtype(X)
    return run.cast(summed(run, dfactors, LU), dtype), run.cast(db, dtype)


LU_FACTOR = Op(
    "linalg_lu_factor",
    "A = P L U, with L and U in one matrix",
    forward_factor,
    backward_factor,
    namesake="torch.linalg.lu_factor",
)
LU_FACTOR_EX = Op(
    "linalg_lu_factor_ex",
    "A = P L U, with info in place of an error",
    forward_factor_ex,
    backward_factor,
    namesake="torch.linalg.lu_factor_ex",
)
LU = Op("linalg_lu", "A = P L U", forward_lu, backward_lu, kept=1, no_gradient=("P",), namesake="torch.linalg.lu")
LU_SOLVE = Op(
    "linalg_lu_solve", "A X = B with the factors of A", forward_solve, backward_solve, namesake="torch.linalg.lu_solve"
)
OPS = (LU_FACTOR, LU_FACTOR_EX, LU, LU_SOLVE)
