"""The polar decomposition, and the iteration that the Muon optimizer uses in its place: kernels/linalg/polar.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from metalcore.ops.base.check import check_eps, refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base.matrix import Batch, check_matrix, promoted
from metalcore.ops.linalg.base.product import Block, matmul, multiply
from metalcore.ops.linalg.base.qr import factorise, positive_qr
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

__all__ = ["newton_schulz", "polar"]
UNIT = Kernel("linalg/polar", "unit_norm")
MIXED = Kernel("linalg/polar", "mixed")
ON_IDENTITY = Kernel("linalg/polar", "on_identity")
SYMMETRIC = Kernel("linalg/polar", "symmetric_part")
MUON = (3.4445, -4.7750, 2.0315)
ADDED = {"float32": 2.0**-30, "float64": 2.0**-60}
"""What is added to the diagonal of R, as a part of the norm, so that no direction is missing."""
ROUNDS = {"float32": ((1e-9, 1e-8),) * 3, "float64": ((1e-18, 1e-16),) * 2}
"""The least singular value that a round of the iteration looks for, and how near to 1 all larger ones have to come. A
round leaves smaller ones between 0 and 1, the next lifts them on: one round that looked for them all would need weights
whose size costs digits. Kahan's matrix of 200 has one of 1e-25, which takes three."""


class Polar(NamedTuple):
    """A = U P."""

    U: Any
    P: Any


def polar(A: Any) -> Any:
    """(U, P) with A = U P: U has orthonormal columns (or rows, where there are fewer), P is symmetric positive
    semidefinite, n x n.

    By the dynamically weighted Halley iteration through QR factorisations (Nakatsukasa, Bai, Gygi), which does not lose
    digits where A is ill-conditioned. Where A has not full rank, U is one of many. It has no gradient.

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


def weights(low: float, tolerance: float) -> list[tuple[float, float, float]]:
    """a, b, c of each step X := X (a + b X^T X) (1 + c X^T X)^-1, for singular values from `low` to 1."""
    found: list[tuple[float, float, float]] = []
    while low < 1 - tolerance:
        root = (4 * (1 - low * low) / low**4) ** (1 / 3)
        part = math.sqrt(1 + root)
        a = part + math.sqrt(8 - 4 * root + 8 * (2 - low * low) / (low * low * part)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        found.append((a, b, c))
        low = min(1.0, low * (a + b * low * low) / (1 + c * low * low))
    return found


def forward(run: Any, A: Any) -> tuple[Any, ...]:
    given, is_wide = run.dtype(A), A.shape[-2] < A.shape[-1]
    work = promoted(run, A)
    tall = run.contiguous(work.swapaxes(-1, -2)) if is_wide else work
    dtype = run.dtype(work)
    basis, r = positive_qr(run, _unit(run, tall, 0.0))
    x, n = _mixed(run, r, r, 1.0, 0.0, ADDED[dtype]), r.shape[-1]
    for a, b, c in [step for limits in ROUNDS[dtype] for step in weights(*limits)]:
        q, _ = factorise(run, _on_identity(run, x, math.sqrt(c)), "reduced")
        product = multiply(run, Block(q, 0, 0, n, n), Block(q, n, 0, n, n), transpose_b=True)
        x = _mixed(run, x, product, b / c, (a - b / c) / math.sqrt(c), 0.0)
    x = matmul(run, basis, x)
    u = run.contiguous(x.swapaxes(-1, -2)) if is_wide else x
    p = _symmetric(run, matmul(run, u, work, transpose_a=True))
    return run.cast(u, given), run.cast(p, given)


def newton_schulz_forward(run: Any, G: Any, steps: int, a: float, b: float, c: float, eps: float) -> tuple[Any, ...]:
    given, is_tall = run.dtype(G), G.shape[-2] > G.shape[-1]
    x = _unit(run, promoted(run, G.swapaxes(-1, -2) if is_tall else G), eps)
    for _ in range(steps):
        gram = matmul(run, x, x, transpose_b=True)
        x = matmul(run, _mixed(run, gram, matmul(run, gram, gram), b, c, a), x)
    return (run.cast(run.contiguous(x.swapaxes(-1, -2)) if is_tall else x, given),)


def _unit(run: Any, array: Any, eps: float) -> Any:
    batch, dtype = Batch.of(array), run.dtype(array)
    arguments = (array, Out(tuple(array.shape), dtype), batch.rows * batch.columns, eps)
    group = (policy("linalg_panel_qr", run.family, dtype)["threads"],)
    (out,) = run.launch(UNIT, (dtype,), (), arguments, (batch.number,), group)
    return out


def _mixed(run: Any, x: Any, y: Any, one: float, two: float, three: float) -> Any:
    batch = Batch.of(x)
    numbers = (batch.rows, batch.columns, one, two, three)
    return _by_rows(run, MIXED, (x, y), tuple(x.shape), batch.rows, numbers)


def _on_identity(run: Any, x: Any, factor: float) -> Any:
    batch = Batch.of(x)
    rows = batch.rows + batch.columns
    return _by_rows(run, ON_IDENTITY, (x,), batch.shape(rows, batch.columns), rows, (batch.rows, batch.columns, factor))


def _symmetric(run: Any, x: Any) -> Any:
    return _by_rows(run, SYMMETRIC, (x,), tuple(x.shape), x.shape[-1], (x.shape[-1],))


def _by_rows(
    run: Any, kernel: Kernel, arrays: tuple[Any, ...], shape: tuple[int, ...], rows: int, numbers: tuple[float, ...]
) -> Any:
    """A kernel that gives a row to a threadgroup."""
    dtype = run.dtype(arrays[0])
    group = (policy("linalg_panel_qr", run.family, dtype)["row_threads"],)
    groups = (rows, math.prod(shape[:-2]), 1)
    (out,) = run.launch(kernel, (dtype,), (), (*arrays, Out(shape, dtype), *numbers), groups, group)
    return out


def reference(A: Any) -> Any:
    import torch

    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh, Vh.mT @ (S.unsqueeze(-1) * Vh)


def newton_schulz_reference(G: Any, steps: int = 5, coefficients: Sequence[float] = MUON, eps: float = 1e-7) -> Any:
    a, b, c = coefficients
    is_tall = G.shape[-2] > G.shape[-1]
    X = G.mT if is_tall else G
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + eps)
    for _ in range(steps):
        gram = X @ X.mT
        X = a * X + (b * gram + c * gram @ gram) @ X
    return X.mT if is_tall else X


def samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(least=1, most=33), draw.size(least=1, most=33))),))


def newton_schulz_samples(draw: Draw) -> Sample:
    (A,) = samples(draw).arguments
    return Sample((A, draw.choice((1, 2, 3, 5)), draw.choice((MUON, (1.5, -0.5, 0.0)))))


POLAR = Op(
    noun="linalg_polar",
    summary="A = U P, orthonormal times symmetric",
    forward=Stage("(Tensor A) -> (Tensor U, Tensor P)", forward),
    reference=reference,
    samples=samples,
    public_outputs=2,
)
NEWTON_SCHULZ = Op(
    noun="linalg_newton_schulz",
    summary="singular values moved near 1, as the Muon optimizer does it",
    forward=Stage(
        "(Tensor G, int steps, float a, float b, float c, float eps) -> Tensor X",
        newton_schulz_forward,
    ),
    reference=newton_schulz_reference,
    samples=newton_schulz_samples,
)
OPS = (POLAR, NEWTON_SCHULZ)
