"""A = P L U with partial pivoting: kernels/linalg/lu.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base.lu import factor
from metalcore.ops.linalg.base.lu_gradient import lu_gradient, unpack
from metalcore.ops.linalg.base.matrix import check_matrix, promoted
from metalcore.ops.linalg.base.result import batch_element, named

__all__ = ["lu", "lu_factor", "lu_factor_ex"]


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


def explain(op: str, is_batch: bool) -> Any:
    """What torch says of a zero on the diagonal of U."""
    return lambda at, order: (
        f"{batch_element(f'torch.linalg.{op}', at, is_batch)}U[{order},{order}] is zero and using it on lu_solve would "
        "result in a division by zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def forward_factor(run: Any, A: Any, pivot: bool) -> tuple[Any, ...]:
    factors, pivots, info = factor(run, promoted(run, A), pivot)
    run.check_info(info, explain("lu_factor", len(A.shape) > 2))
    return run.cast(factors, run.dtype(A)), pivots


def forward_factor_ex(run: Any, A: Any, pivot: bool, check_errors: bool) -> tuple[Any, ...]:
    factors, pivots, info = factor(run, promoted(run, A), pivot)
    if check_errors:
        run.check_info(info, explain("lu_factor_ex", len(A.shape) > 2))
    return run.cast(factors, run.dtype(A)), pivots, info


def backward_factor(run: Any, grad_LU: Any, LU: Any, pivots: Any) -> tuple[Any, ...]:
    grad, factors = promoted(run, grad_LU), promoted(run, LU)
    steps = min(LU.shape[-2:])
    _, lower, upper = unpack(run, factors, None)
    dlower, dupper = run.contiguous(grad[..., :steps]), run.contiguous(grad[..., :steps, :])
    return (run.cast(lu_gradient(run, lower, upper, pivots, dlower, dupper), run.dtype(LU)),)


def forward_lu(run: Any, A: Any, pivot: bool) -> tuple[Any, ...]:
    factors, pivots, _ = factor(run, promoted(run, A), pivot)
    dtype = run.dtype(A)
    parts = unpack(run, factors, pivots if pivot else None)
    return (*(run.cast(part, dtype) for part in parts), pivots)


def backward_lu(run: Any, grad_L: Any, grad_U: Any, L: Any, U: Any, pivots: Any) -> tuple[Any, ...]:
    lower, upper, dlower, dupper = (promoted(run, x) for x in (L, U, grad_L, grad_U))
    return (run.cast(lu_gradient(run, lower, upper, pivots, dlower, dupper), run.dtype(L)),)


def reference_factor(A: Any, *, pivot: bool = True) -> Any:
    import torch

    return torch.linalg.lu_factor(A, pivot=pivot)


def reference_factor_ex(A: Any, *, pivot: bool = True) -> Any:
    import torch

    return torch.linalg.lu_factor_ex(A, pivot=pivot)


def reference_lu(A: Any, *, pivot: bool = True) -> Any:
    import torch

    return torch.linalg.lu(A, pivot=pivot)


def samples(draw: Draw) -> Sample:
    rows = draw.size(most=65)
    columns = rows if draw.chance(0.5) else draw.size(most=65)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns)),))


LU_FACTOR = Op(
    noun="linalg_lu_factor",
    summary="A = P L U, with L and U in one matrix",
    forward=Stage("(Tensor A, bool pivot) -> (Tensor LU, Tensor pivots)", forward_factor),
    backward=Stage("(Tensor grad_LU, Tensor LU, Tensor pivots) -> Tensor dA", backward_factor),
    gradients=("A",),
    public_outputs=2,
    reference=reference_factor,
    samples=samples,
    namesake="torch.linalg.lu_factor",
)
LU_FACTOR_EX = Op(
    noun="linalg_lu_factor_ex",
    summary="A = P L U, with info in place of an error",
    forward=Stage(
        "(Tensor A, bool pivot, bool check_errors) -> (Tensor LU, Tensor pivots, Tensor info)", forward_factor_ex
    ),
    backward=Stage("(Tensor grad_LU, Tensor LU, Tensor pivots) -> Tensor dA", backward_factor),
    gradients=("A",),
    public_outputs=3,
    reference=reference_factor_ex,
    samples=samples,
    namesake="torch.linalg.lu_factor_ex",
)
LU = Op(
    noun="linalg_lu",
    summary="A = P L U",
    forward=Stage("(Tensor A, bool pivot) -> (Tensor P, Tensor L, Tensor U, Tensor pivots)", forward_lu),
    backward=Stage("(Tensor grad_L, Tensor grad_U, Tensor L, Tensor U, Tensor pivots) -> Tensor dA", backward_lu),
    gradients=("A",),
    public_outputs=3,
    reference=reference_lu,
    samples=samples,
    namesake="torch.linalg.lu",
)
OPS = (LU_FACTOR, LU_FACTOR_EX, LU)
