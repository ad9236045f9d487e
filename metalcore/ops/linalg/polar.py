"""The polar decomposition, and the iteration that the Muon optimizer uses in its place: kernels/linalg/polar.metal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from metalcore.ops.base.check import check_eps, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import Batch, check_matrix, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.singular import check, decompose, scaled_rows
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["newton_schulz", "polar"]
UNIT = Kernel("linalg/polar", "unit_norm")
MIXED = Kernel("linalg/polar", "mixed")
SYMMETRIC = Kernel("linalg/polar", "symmetric_part")
MUON = (3.4445, -4.7750, 2.0315)


class Polar(NamedTuple):
    """A = U P."""

    U: Any
    P: Any


def polar(A: Any) -> Any:
    """(U, P) with A = U P: U has orthonormal columns (or rows, where there are fewer), P is symmetric positive
    semidefinite, n x n.

    By the singular value decomposition, which loses no digits where A is ill-conditioned. Where A has not full rank, U
    is one of many. It has no gradient.

    >>> import numpy as np, metalcore
    >>> U, P = metalcore.linalg.polar(np.array([[0.0, -2.0], [3.0, 0.0]], np.float32))
    >>> np.round(np.abs(U), 4), np.round(P, 4)
    (array([[0., 1.],
           [1., 0.]], dtype=float32), array([[3., 0.],
           [0., 2.]], dtype=float32))
    """
    check_matrix("linalg.polar", "A", A)
    return Polar(*POLAR(A))


def newton_schulz(G: Any, steps: int = 5, coefficients: Sequence[float] = MUON, eps: float = 1e-7) -> Any:
    """G with its singular values moved near 1, as the Muon optimizer does it: X = G / (|G| + eps), then `steps` times
    X := a X + (b X X^T + c (X X^T)^2) X. With Muon's coefficients singular values end between about 0.7 and 1.2.

    >>> import numpy as np, metalcore
    >>> X = metalcore.linalg.newton_schulz(np.diag([3.0, 2.0]).astype(np.float32))
    >>> bool((np.abs(np.diag(X) - 1) < 0.35).all())
    True
    """
    op = "linalg.newton_schulz"
    check_matrix(op, "G", G)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        refuse(op, "steps", "an integer that is not negative", repr(steps))
    if len(coefficients) != 3:
        refuse(op, "coefficients", "three numbers a, b, c", repr(coefficients))
    a, b, c = map(float, coefficients)
    return NEWTON_SCHULZ(G, steps, a, b, c, check_eps(op, eps))


@stage("(Tensor A) -> (Tensor U, Tensor P)")
def forward(run: Runtime, A: Any) -> tuple[Any, ...]:
    given, found = run.dtype(A), decompose(run, promoted(run, A))
    check(run, found.info, len(A.shape) > 2, "linalg.polar")
    vh = run.contiguous(found.vh)
    u = matmul(run, run.contiguous(found.u), vh)
    p = _symmetric(run, matmul(run, vh, scaled_rows(run, vh, found.values), transpose_a=True))
    return run.cast(u, given), run.cast(p, given)


@stage("(Tensor G, int steps, float a, float b, float c, float eps) -> Tensor X")
def newton_schulz_forward(
    run: Runtime, G: Any, steps: int, a: float, b: float, c: float, eps: float
) -> tuple[Any, ...]:
    given, is_tall = run.dtype(G), G.shape[-2] > G.shape[-1]
    x = _unit(run, promoted(run, G.swapaxes(-1, -2) if is_tall else G), eps)
    for _ in range(steps):
        gram = matmul(run, x, x, transpose_b=True)
        x = matmul(run, _mixed(run, gram, matmul(run, gram, gram), b, c, a), x)
    return (run.cast(run.contiguous(x.swapaxes(-1, -2)) if is_tall else x, given),)


def _unit(run: Runtime, array: Any, eps: float) -> Any:
    batch, dtype = Batch.of(array), run.dtype(array)
    arguments = dict(a=array, out=Out(tuple(array.shape), dtype), size=batch.rows * batch.columns, eps=eps)
    group = (policy("linalg_panel_qr", run.family, dtype)["threads"],)
    (out,) = run.launch(UNIT, (dtype,), (), arguments, (batch.number,), group)
    return out


def _mixed(run: Runtime, x: Any, y: Any, one: float, two: float, three: float) -> Any:
    batch = Batch.of(x)
    arguments = dict(x=x, y=y, row_count=batch.rows, column_count=batch.columns, one=one, two=two, three=three)
    return _by_rows(run, MIXED, arguments, tuple(x.shape), batch.rows)


def _symmetric(run: Runtime, x: Any) -> Any:
    return _by_rows(run, SYMMETRIC, dict(x=x, size=x.shape[-1]), tuple(x.shape), x.shape[-1])


def _by_rows(run: Runtime, kernel: Kernel, arguments: Mapping[str, Any], shape: tuple[int, ...], rows: int) -> Any:
    """A kernel that gives a row to a threadgroup: `out`, of this shape, from x and what else it takes."""
    dtype = run.dtype(arguments["x"])
    group = (policy("linalg_panel_qr", run.family, dtype)["row_threads"],)
    groups = (rows, math.prod(shape[:-2]), 1)
    (out,) = run.launch(kernel, (dtype,), (), dict(arguments, out=Out(shape, dtype)), groups, group)
    return out


POLAR = Op("linalg_polar", "A = U P, orthonormal times symmetric", forward, batched=("A",))
NEWTON_SCHULZ = Op(
    "linalg_newton_schulz", "singular values moved near 1, as the Muon optimizer does it", newton_schulz_forward
)
OPS = (POLAR, NEWTON_SCHULZ)
