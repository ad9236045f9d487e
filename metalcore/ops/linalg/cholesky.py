"""Cholesky factorisation: kernels/linalg/cholesky.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, check_square, lane_groups, promoted
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.runtimes.kernel import Kernel, Out

__all__ = ["cholesky", "cholesky_ex"]
IN_LANES = Kernel("linalg/cholesky", "cholesky_lanes", ("is_upper",))


def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L of A = L L^T, or with `upper` the U of A = U^T U; A is symmetric positive definite.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_square("linalg.cholesky", "A", A)
    return CHOLESKY(A, bool(upper))


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): no error is raised; `info` is the order of the first minor that is not positive definite, or 0."""
    check_square("linalg.cholesky_ex", "A", A)
    if check_errors:
        factor = cholesky(A, upper=upper)
    factor, info = CHOLESKY_EX(A, bool(upper))
    return named("linalg_cholesky_ex", "L info", (factor, info))


def forward_ex(run: Any, A: Any, upper: bool) -> tuple[Any, ...]:
    batch, n = Batch.of(A), A.shape[-1]
    work = promoted(run, A)
    dtype = run.dtype(work)
    outs = (Out(batch.shape(n, n), dtype), Out(batch.leading, "int32"))
    types = (dtype, capacity(n))
    factor, info = run.launch(
        IN_LANES, types, (upper,), (work, *outs, batch.number, n), lane_groups(batch.number), (LANES,)
    )
    return run.cast(factor, run.dtype(A)), info


def forward(run: Any, A: Any, upper: bool) -> tuple[Any, ...]:
    factor, info = forward_ex(run, A, upper)
    is_batch = len(A.shape) > 2
    run.check_info(info, lambda at, order: _explain(at, order, is_batch))
    return (factor,)


def _explain(position: int, order: int, is_batch: bool) -> str:
    return (
        f"{batch_element('linalg.cholesky', position, is_batch)}The factorization could not be completed because the "
        f"input is not positive-definite (the leading minor of order {order} is not positive-definite)."
    )


def reference(A: Any, *, upper: bool = False) -> Any:
    import torch

    return torch.linalg.cholesky(A, upper=upper)


def reference_ex(A: Any, *, upper: bool = False) -> Any:
    import torch

    return torch.linalg.cholesky_ex(A, upper=upper)


def samples(draw: Draw) -> Sample:
    n = draw.size(most=33)
    half = draw.floats((*draw.leading(most=1), n, n))
    values = half.values @ half.values.swapaxes(-1, -2)
    return Sample((type(half)(values, half.layout),), {"upper": draw.chance(0.5)})


CHOLESKY = Op(
    noun="linalg_cholesky",
    summary="A = L L^T",
    forward=Stage("(Tensor A, bool upper) -> Tensor L", forward),
    reference=reference,
    samples=samples,
    namesake="torch.linalg.cholesky",
)
CHOLESKY_EX = Op(
    noun="linalg_cholesky_ex",
    summary="A = L L^T, with info in place of an error",
    forward=Stage("(Tensor A, bool upper) -> (Tensor L, Tensor info)", forward_ex),
    reference=reference_ex,
    samples=samples,
    public_outputs=2,
    namesake="torch.linalg.cholesky_ex",
)
OPS = (CHOLESKY, CHOLESKY_EX)
