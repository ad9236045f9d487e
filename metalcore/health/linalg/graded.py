"""Singular values of matrices that are well-conditioned but for the scaling of their rows or columns.

One-sided Jacobi finds even the smallest of them to nearly all digits; methods that bidiagonalise lose them, also in
float64. So the reference is one-sided Jacobi in float64, written here in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metalcore.health.linalg.matrices import Array

SCALING = 1e-30
SCALED = {"svd of scaled matrices": "svd", "svdvals of scaled matrices": "svdvals"}
_SWEEPS = 40


def scaled_matrix(n: int, side: str, seed: int = 0) -> Array:
    """D * C or C * D with values of float32: C is orthogonal plus a little, D has a condition of 1e30."""
    random = np.random.default_rng([seed, n, side == "rows"])
    well = np.linalg.qr(random.standard_normal((n, n)))[0] + random.uniform(-0.3, 0.3, (n, n)) / n
    scales = random.permutation(np.geomspace(1, SCALING, n))
    values = scales[:, None] * well if side == "rows" else well * scales
    return values.astype(np.float32).astype(np.float64)


def relative_errors(
    name: str, n: int, side: str, call: Callable[[Callable[..., Any], Array], tuple[Any, ...]], seed: int = 0
) -> dict[str, float]:
    """Of the smallest singular value and of the worst one."""
    A = scaled_matrix(n, side, seed)
    if SCALED[name] == "svd":
        found = call(lambda f, A: f.svd(A), A)[1]
    else:
        (found,) = call(lambda f, A: (f.svdvals(A),), A)
    exact = jacobi_values(A.T if side == "rows" else A)
    errors = np.abs(np.asarray(found, np.float64) - exact) / exact
    return {"smallest": float(errors[-1]), "worst": float(errors.max())}


def jacobi_values(A: Array) -> Array:
    """Singular values of a matrix whose columns may be scaled, largest first, by one-sided Jacobi (Demmel and Veselic,
    1992): each has the relative error of a well-conditioned problem."""
    columns = np.array(A.T[np.argsort(-np.linalg.norm(A, axis=0))])
    n = len(columns)
    for _ in range(_SWEEPS):
        turned = False
        for i in range(n - 1):
            for j in range(i + 1, n):
                turned |= _rotate(columns, i, j)
        if not turned:
            return np.asarray(np.sort(np.linalg.norm(columns, axis=1))[::-1])
    raise ArithmeticError("one-sided Jacobi did not converge")


def _rotate(columns: Array, i: int, j: int) -> bool:
    """Make two columns orthogonal; false where they are."""
    x, y = columns[i], columns[j]
    xx, yy, xy = float(x @ x), float(y @ y), float(x @ y)
    if abs(xy) <= 1e-15 * np.sqrt(xx) * np.sqrt(yy):
        return False
    zeta = (yy - xx) / (2 * xy)
    tangent = (1 if zeta >= 0 else -1) / (abs(zeta) + np.hypot(1, zeta))
    cosine = 1 / np.hypot(1, tangent)
    columns[i], columns[j] = cosine * (x - tangent * y), cosine * (y + tangent * x)
    return True
