"""LAPACK's test ratios: residuals and departures from orthogonality, as multiples of n * eps of float32.

Everything is computed in float64 by NumPy, over a whole batch; a ratio is that of the worst matrix. `n` is the largest
dimension, norms are 1-norms, `eps` is LAPACK's for the test in question: the rounding unit 2^-24 for linear systems and
QR (xQRT01, xPOT01, xGET01, xGET02, xGET03), the precision 2^-23 for eigenvalues, singular values and orthogonality
(xSYT21, xBDT01, xORT01). 0 / 0 is 0; where there is a NaN or an infinity the ratio is infinite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Ratios = dict[str, float]

ROUNDING = 2.0**-24
PRECISION = 2.0**-23
quiet = np.errstate(invalid="ignore", over="ignore")  # what is not finite is found in `worst`
LINEAR_LIMIT, SVD_LIMIT, EIGH_LIMIT = 30.0, 35.0, 60.0


def doubles(values: Any) -> Array:
    """A tensor, an mx array or a NumPy array, as float64."""
    if hasattr(values, "detach"):
        values = values.detach().double().cpu().numpy()
    elif not isinstance(values, np.ndarray) and str(getattr(values, "dtype", "")).startswith("mlx"):
        import mlx.core as mx

        values = np.array(values.astype(mx.float32))
    return np.asarray(values, np.float64)


@quiet
def qr(A: Any, Q: Any, R: Any) -> Ratios:
    """Of the reduced or the complete factorisation; R has to be zero below the diagonal."""
    A, Q, R = doubles(A), doubles(Q), doubles(R)
    return {
        "residual": worst(norm(A - Q @ R), norm(A), size(A) * ROUNDING),
        **orthogonality(Q),
        "shape": _unless(not np.tril(R, -1).any()),
    }


@quiet
def orthogonality(Q: Any) -> Ratios:
    """Of the columns, or of the rows where there are fewer of them."""
    Q = doubles(Q)
    if Q.shape[-2] < Q.shape[-1]:
        Q = Q.swapaxes(-1, -2)
    away = norm(Q.swapaxes(-1, -2) @ Q - np.eye(Q.shape[-1]))
    return {"orthogonality": worst(away, np.ones_like(away), size(Q) * PRECISION)}


@quiet
def cholesky(A: Any, L: Any, upper: bool = False) -> Ratios:
    A, L = doubles(A), doubles(L)
    if upper:
        L = L.swapaxes(-1, -2)
    return {
        "residual": worst(norm(A - L @ L.swapaxes(-1, -2)), norm(A), size(A) * ROUNDING),
        "shape": _unless(not np.triu(L, 1).any()),
    }


@quiet
def lu(A: Any, P: Any, L: Any, U: Any) -> Ratios:
    """Of A = P L U with P as matrices; the multipliers in L have to be at most 1 in size."""
    A, P, L, U = doubles(A), doubles(P), doubles(L), doubles(U)
    few = L.shape[-1]
    unit = not np.triu(L[..., :few, :], 1).any() and bool((np.diagonal(L, axis1=-2, axis2=-1) == 1).all())
    return {
        "residual": worst(norm(A - P @ L @ U), norm(A), size(A) * ROUNDING),
        "shape": _unless(unit and not np.tril(U, -1).any()),
        "pivots": _unless(bool((np.abs(L) <= 1 + 2 * PRECISION).all())),
    }


@quiet
def solve(A: Any, X: Any, B: Any) -> Ratios:
    """The backward error of the worst right-hand side."""
    A, X, B = doubles(A), doubles(X), doubles(B)
    residual = np.abs(B - A @ X).sum(-2)
    return {"residual": worst(residual, norm(A)[..., None] * np.abs(X).sum(-2), size(A) * ROUNDING)}


@quiet
def inverse(A: Any, Ainv: Any) -> Ratios:
    A, Ainv = doubles(A), doubles(Ainv)
    away = norm(np.eye(A.shape[-1]) - Ainv @ A)
    return {"residual": worst(away, norm(A) * norm(Ainv), size(A) * ROUNDING)}


@quiet
def eigh(A: Any, W: Any, V: Any) -> Ratios:
    A, W, V = doubles(A), doubles(W), doubles(V)
    rebuilt = (V * W[..., None, :]) @ V.swapaxes(-1, -2)
    return {
        "residual": worst(norm(A - rebuilt), norm(A), size(A) * PRECISION),
        **orthogonality(V),
        "order": _unless(bool((np.diff(W, axis=-1) >= 0).all())),
    }


@quiet
def eigenvalues(A: Any, W: Any) -> Ratios:
    """Against float64: absolute errors, in units of the norm."""
    A, W = doubles(A), doubles(W)
    if not np.isfinite(A).all():
        return {"values": float("inf")}
    away = np.abs(W - np.linalg.eigvalsh(A)).max(-1, initial=0)
    return {
        "values": worst(away, norm(A), size(A) * PRECISION),
        "order": _unless(bool((np.diff(W, axis=-1) >= 0).all())),
    }


@quiet
def svd(A: Any, U: Any, S: Any, Vh: Any) -> Ratios:
    """Of the reduced or the full decomposition."""
    A, U, S, Vh = doubles(A), doubles(U), doubles(S), doubles(Vh)
    few = S.shape[-1]
    rebuilt = (U[..., :few] * S[..., None, :]) @ Vh[..., :few, :]
    return {
        "residual": worst(norm(A - rebuilt), norm(A), size(A) * PRECISION),
        "left": orthogonality(U)["orthogonality"],
        "right": orthogonality(Vh)["orthogonality"],
        "order": _unless(bool((np.diff(S, axis=-1) <= 0).all() and (S >= 0).all())),
    }


@quiet
def singular_values(A: Any, S: Any) -> Ratios:
    """Against float64: absolute errors, in units of the norm."""
    A, S = doubles(A), doubles(S)
    if not np.isfinite(A).all():
        return {"values": float("inf")}
    away = np.abs(S - np.linalg.svd(A, compute_uv=False)).max(-1, initial=0)
    return {
        "values": worst(away, norm(A), size(A) * PRECISION),
        "order": _unless(bool((np.diff(S, axis=-1) <= 0).all() and (S >= 0).all())),
    }


def norm(values: Array) -> Array:
    """The 1-norm of each matrix."""
    return np.asarray(np.abs(values).sum(-2).max(-1, initial=0))


def size(values: Array) -> int:
    return int(max(*values.shape[-2:], 1))


def worst(error: Array, scale: Array, unit: float) -> float:
    """The largest error / (scale * unit) of a batch; 0 / 0 is 0."""
    error, scale = np.broadcast_arrays(error, scale)
    if not (np.isfinite(error).all() and np.isfinite(scale).all()):
        return float("inf")
    with np.errstate(divide="ignore"):
        ratio = np.divide(error, scale, out=np.zeros(error.shape), where=error != 0)
    return float(ratio.max(initial=0) / unit)


def _unless(holds: bool) -> float:
    """A condition as a ratio: nothing, or too much."""
    return 0.0 if holds else float("inf")
