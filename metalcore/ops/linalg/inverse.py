"""The inverse and the determinant: kernels/linalg/solve.metal and lu_parts.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base import lu
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, check_square, lane_groups, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

__all__ = ["det", "inv", "inv_ex", "slogdet"]
DETERMINANT = Kernel("linalg/lu_parts", "lu_determinant", ("is_logarithm",))
IN_LANES = Kernel("linalg/lu_parts", "determinant_lanes", ("is_logarithm",))
SCALE = Kernel("linalg/lu_parts", "scale_matrices", ("has_factor",))


def inv(A: Any) -> Any:
    """The inverse. A singular matrix is an error.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.inv(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32))
    array([[-1.  ,  0.5 ],
           [ 1.  , -0.25]], dtype=float32)
    """
    check_square("linalg.inv", "A", A)
    return INV(A)


def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """(inverse, info): no error is raised; `info` is the number of the first pivot that is zero, or 0."""
    check_square("linalg.inv_ex", "A", A)
    return named("linalg_inv_ex", "inverse info", INV_EX(A, bool(check_errors)))


def det(A: Any) -> Any:
    """The determinant. Where it is 0 its gradient is 0, as torch's; the true one is not where only one rank is missing.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.det(np.array([[[1.0, 2.0], [4.0, 4.0]]], np.float32))
    array([-4.], dtype=float32)
    """
    check_square("linalg.det", "A", A)
    return DET(A)


def slogdet(A: Any) -> Any:
    """(sign, logabsdet): the determinant's sign, and the logarithm of its size: 0 and -inf for a singular matrix."""
    check_square("linalg.slogdet", "A", A)
    return named("linalg_slogdet", "sign logabsdet", SLOGDET(A))


def _explain(op: str, is_batch: bool) -> Any:
    return lambda at, order: (
        f"{batch_element(f'linalg.{op}', at, is_batch)}The diagonal element {order} is zero, the inversion could not "
        "be completed because the input matrix is singular."
    )


@stage("(Tensor A, bool check_errors) -> (Tensor inverse, Tensor info)")
def forward_ex(run: Runtime, A: Any, check_errors: bool) -> tuple[Any, ...]:
    x, info = lu.inverse(run, promoted(run, A))
    if check_errors:
        run.check_info(info, _explain("inv_ex", len(A.shape) > 2))
    return run.cast(x, run.dtype(A)), info


@stage("(Tensor A) -> Tensor inverse")
def forward(run: Runtime, A: Any) -> tuple[Any, ...]:
    x, info = lu.inverse(run, promoted(run, A))
    run.check_info(info, _explain("inv", len(A.shape) > 2))
    return (run.cast(x, run.dtype(A)),)


@stage("(Tensor grad_inverse, Tensor inverse) -> Tensor dA")
def backward(run: Runtime, grad_inverse: Any, inverse: Any) -> tuple[Any, ...]:
    """dA = -X^T dX X^T."""
    x = promoted(run, inverse)
    left = matmul(run, x, promoted(run, grad_inverse), transpose_a=True)
    return (run.cast(matmul(run, left, x, transpose_b=True, alpha=-1.0), run.dtype(inverse)),)


def _determinant(run: Runtime, A: Any, is_logarithm: bool) -> tuple[Any, ...]:
    """The determinant, or its sign and the logarithm of its size."""
    a = promoted(run, A)
    batch, dtype = Batch.of(a), run.dtype(a)
    outs = dict(determinants=Out(batch.leading, dtype), logarithms=Out(batch.leading if is_logarithm else (0,), dtype))
    if lu.is_for_lanes(run, dtype, batch.number, batch.rows, batch.rows):
        types, groups = (dtype, capacity(batch.rows if batch.number else 0)), lane_groups(batch.number)
        numbers = dict(count=batch.number, size=batch.rows)
        found = run.launch(IN_LANES, types, (is_logarithm,), dict(a=a, **outs, **numbers), groups, (LANES,))
    else:
        factors, pivots, _ = lu.factor(run, a)
        arguments = dict(factors=factors, pivots=pivots, **outs, size=batch.rows)
        found = run.launch(DETERMINANT, (dtype,), (is_logarithm,), arguments, (batch.number,), (LANES,))
    return tuple(run.cast(x, run.dtype(A)) for x in (found if is_logarithm else found[:1]))


@stage("(Tensor A) -> Tensor det")
def forward_det(run: Runtime, A: Any) -> tuple[Any, ...]:
    return _determinant(run, A, False)


@stage("(Tensor A) -> (Tensor sign, Tensor logabsdet)")
def forward_slogdet(run: Runtime, A: Any) -> tuple[Any, ...]:
    return _determinant(run, A, True)


def _scaled_inverse(run: Runtime, A: Any, scales: Any, factors: Any) -> Any:
    """scales * factors * A^-T"""
    x, _ = lu.inverse(run, promoted(run, A), transposed=True)
    batch, dtype = Batch.of(x), run.dtype(x)
    size = batch.rows * batch.columns
    other = None if factors is None else promoted(run, factors)
    arguments = dict(x=x, scales=promoted(run, scales), factors=other, y=Out(tuple(x.shape), dtype), size=size)
    groups = (batch.number if size else 0,)
    (scaled,) = run.launch(SCALE, (dtype,), (factors is not None,), arguments, groups, (LANES,))
    return run.cast(scaled, run.dtype(A))


@stage("(Tensor grad_det, Tensor A, Tensor det) -> Tensor dA")
def backward_det(run: Runtime, grad_det: Any, A: Any, det: Any) -> tuple[Any, ...]:
    return (_scaled_inverse(run, A, grad_det, det),)


@stage("(Tensor grad_logabsdet, Tensor A) -> Tensor dA")
def backward_slogdet(run: Runtime, grad_logabsdet: Any, A: Any) -> tuple[Any, ...]:
    return (_scaled_inverse(run, A, grad_logabsdet, None),)


INV = Op("linalg_inv", "the inverse", forward, backward, namesake="torch.linalg.inv")
INV_EX = Op(
    "linalg_inv_ex", "the inverse, with info in place of an error", forward_ex, backward, namesake="torch.linalg.inv_ex"
)
DET = Op("linalg_det", "the determinant", forward_det, backward_det, namesake="torch.linalg.det")
SLOGDET = Op(
    "linalg_slogdet",
    "the determinant's sign, and the logarithm of its size",
    forward_slogdet,
    backward_slogdet,
    namesake="torch.linalg.slogdet",
)
OPS = (INV, INV_EX, DET, SLOGDET)
