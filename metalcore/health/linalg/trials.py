"""What the accuracy suite tries of each function: on which kinds of matrices, how it is called, which ratios are taken.

A trial's `inputs` are made from A in NumPy; `call` gets the public functions and the inputs in float32 as arrays of the
framework in question; `ratios` gets the same inputs in float64 and what came out. All keep the leading dimension of a
batch, so that a batch may hold matrices of many kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metalcore.health.linalg import ratios as r
from metalcore.health.linalg.matrices import EXACTLY_SINGULAR, KINDS, POSITIVE_DEFINITE, SYMMETRIC
from metalcore.health.linalg.ratios import EIGH_LIMIT, LINEAR_LIMIT, PRECISION, ROUNDING, SVD_LIMIT, Array, Ratios

ALL_SHAPES = ("square", "tall", "wide")
REGULAR = tuple(kind for kind in KINDS if kind not in EXACTLY_SINGULAR)
INVERTIBLE = tuple(kind for kind in REGULAR if not kind.startswith("near_") or kind == "near_singular")
WELL_CONDITIONED = ("random", "clustered", "triangular", "lower_triangular", "diagonal", "identity", "orthogonal")
SINGULAR_BEYOND = {
    "hilbert": 10,
    "vandermonde": 10,
    "kahan": 200,
}  # the size from which float32 cannot tell them from singular ones
RIGHT_SIDES = 3


@dataclass(frozen=True)
class Trial:
    name: str
    family: str  # the column of the table
    needs: tuple[str, ...]  # public functions
    kinds: tuple[str, ...]
    limit: float
    call: Callable[..., tuple[Any, ...]]
    ratios: Callable[..., Ratios]
    inputs: Callable[..., tuple[Array, ...]] = lambda A, random: (A,)
    shapes: tuple[str, ...] = ("square",)
    most: int = 512  # the largest size
    long: bool = True  # 5000 x 8 and the like too
    regular: bool = False  # a matrix that is singular in float32 is left out

    def takes(self, kind: str, size: int) -> bool:
        return kind in self.kinds and not (self.regular and size > SINGULAR_BEYOND.get(kind, size))


def _single(values: Any) -> Array:
    """Rounded to float32."""
    return np.asarray(values, np.float32).astype(np.float64)


def _right_sides(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    """A and A @ X for X about 1, so that nothing overflows."""
    return A, _single(A @ random.standard_normal((*A.shape[:-2], A.shape[-1], RIGHT_SIDES)))


def _left_sides(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    return A, _single(random.standard_normal((*A.shape[:-2], RIGHT_SIDES, A.shape[-2])) @ A)


def _t(values: Any) -> Any:
    return values.swapaxes(-1, -2)


# --- qr --------------------------------------------------------------------------------------------------------------
def _only_r(A: Array, R: Any) -> Ratios:
    """R' R = A' A."""
    R = r.doubles(R)
    scale = r.norm(A) * r.norm(_t(A))
    return {"residual": r.worst(r.norm(_t(A) @ A - _t(R) @ R), scale, r.size(A) * ROUNDING)}


def _reflectors(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    h, tau = np.linalg.qr(A, mode="raw")
    return A, _single(_t(h)), _single(tau)


def _reflectors_and_sides(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    sides = random.standard_normal((*A.shape[:-2], A.shape[-2], RIGHT_SIDES))
    return (*_reflectors(A, random)[1:], _single(sides))


def _of_reflectors(A: Array, h: Array, tau: Array, Q: Any) -> Ratios:
    few = h.shape[-1]
    return r.qr(A, Q, np.triu(h[..., :few, :]))


def _times_q(h: Array, tau: Array, C: Array, found: Any) -> Ratios:
    exact = C.copy()
    for i in reversed(range(tau.shape[-1])):
        v = h[..., :, i : i + 1].copy()
        v[..., :i, :], v[..., i, :] = 0, 1
        exact -= tau[..., i, None, None] * v @ (_t(v) @ exact)
    return {"residual": r.worst(r.norm(exact - r.doubles(found)), r.norm(C), r.size(h) * ROUNDING)}


# --- linear systems --------------------------------------------------------------------------------------------------
def _factor_and_sides(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    L = _single(np.linalg.cholesky(A))
    return L, _right_sides(L @ _t(L), random)[1]


def _with_factor(L: Array, B: Array, X: Any) -> Ratios:
    return r.solve(L @ _t(L), X, B)


def _triangle(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    return _right_sides(np.triu(A), random)


def _determinant(A: Array, sign: Any, logarithm: Any) -> Ratios:
    """The error of log |det A|, over n eps cond(A)."""
    exact_sign, exact = np.linalg.slogdet(A)
    sign, logarithm = r.doubles(sign), r.doubles(logarithm)
    away = np.where(sign == exact_sign, np.abs(logarithm - exact), np.inf)
    # The logarithm itself is rounded too.
    scale = np.maximum(np.linalg.cond(A), np.abs(exact)) if A.size else np.ones(A.shape[:-2])
    return {"logarithm": r.worst(away, scale, r.size(A) * ROUNDING)}


def _plain_determinant(A: Array, found: Any) -> Ratios:
    values = r.doubles(found)
    with np.errstate(divide="ignore"):
        return _determinant(A, np.sign(values), np.log(np.abs(values)))


# --- eigenvalues and singular values ---------------------------------------------------------------------------------
def _with_noise_above(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    """The upper triangle is not to be read."""
    noise: Any = random.standard_normal(A.shape)
    return A, _single(np.tril(A) + np.triu(noise, 1))


def _pseudoinverse(A: Array, X: Any) -> Ratios:
    X = r.doubles(X)
    one, other = r.norm(A), r.norm(X)
    return {
        "A X A": r.worst(r.norm(A @ X @ A - A), one * one * other, r.size(A) * ROUNDING),
        "X A X": r.worst(r.norm(X @ A @ X - X), other * other * one, r.size(A) * ROUNDING),
        "symmetry": r.worst(r.norm(A @ X - _t(A @ X)), one * other, r.size(A) * ROUNDING),
    }


def _least_squares(A: Array, B: Array, X: Any) -> Ratios:
    """The residual is orthogonal to the columns of A (xQRT17), and X lies in the row space (xQRT14)."""
    X = r.doubles(X)
    scale = r.norm(_t(A)) * (r.norm(B) + r.norm(A) * r.norm(X))
    least = r.size(A) * PRECISION  # torch's default in float32
    inverse: Array = np.asarray(np.linalg.pinv(A, rcond=least), np.float64)
    missing = X - inverse @ (A @ X)
    # How far X may leave the row space: by what the condition makes of a rounding.
    condition = r.norm(A) * r.norm(inverse)
    return {
        "residual": r.worst(r.norm(_t(A) @ (B - A @ X)), scale, r.size(A) * ROUNDING),
        "row space": r.worst(r.norm(missing), r.norm(X) * condition, r.size(A) * ROUNDING),
    }


def _any_sides(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    return A, _single(random.standard_normal((*A.shape[:-1], RIGHT_SIDES)))


def _rank(A: Array, found: Any) -> Ratios:
    least = r.size(A) * PRECISION  # torch's default in float32
    same = np.array_equal(r.doubles(found), np.linalg.matrix_rank(A, rtol=least))
    return {"rank": 0.0 if same else float("inf")}


def _frobenius(A: Array, found: Any) -> Ratios:
    exact = np.sqrt((A * A).sum((-1, -2)))
    return {"error": r.worst(np.abs(r.doubles(found) - exact), exact, r.size(A) * ROUNDING)}


def _condition(A: Array, found: Any) -> Ratios:
    exact = np.linalg.cond(A) if A.size else np.zeros(A.shape[:-2])  # as torch has it
    return {"error": r.worst(np.abs(r.doubles(found) - exact), exact * exact, r.size(A) * ROUNDING)}


# --- products --------------------------------------------------------------------------------------------------------
def _factors(A: Array, random: np.random.Generator) -> tuple[Array, ...]:
    return A, _single(random.uniform(-1, 1, (*A.shape[:-2], A.shape[-1], A.shape[-2])))


def _product(A: Array, B: Array, C: Any) -> Ratios:
    """Every entry against the bound of its dot product; what lies below the normal numbers is rounded to 2^-149."""
    bound = np.abs(A) @ np.abs(B) + 2.0**-149 / ROUNDING
    return {"error": r.worst(np.abs(A @ B - r.doubles(C)), bound, r.size(A) * ROUNDING)}


# --- orthonormal bases -----------------------------------------------------------------------------------------------
def _basis(A: Array, Q: Any) -> Ratios:
    """Orthonormal, and A lies in its span."""
    Q = r.doubles(Q)
    inside = Q @ (_t(Q) @ A) if A.shape[-2] >= A.shape[-1] else (A @ _t(Q)) @ Q
    return {**r.orthogonality(Q), "span": r.worst(r.norm(A - inside), r.norm(A), r.size(A) * ROUNDING)}


def _completed(Q: Array, found: Any) -> Ratios:
    """Orthogonal, and it begins with Q."""
    whole = r.doubles(found)
    away = r.norm(whole[..., : Q.shape[-1]] - Q)
    return {**r.orthogonality(whole), "beginning": r.worst(away, np.ones_like(away), r.size(Q) * ROUNDING)}


def _polar(A: Array, U: Any, P: Any) -> Ratios:
    """A = U P; P is symmetric and has no negative eigenvalue."""
    U, P = r.doubles(U), r.doubles(P)
    unit = r.size(A) * PRECISION
    least = -np.linalg.eigvalsh((P + _t(P)) / 2).min(-1, initial=0) if np.isfinite(P).all() else np.inf
    return {
        **r.orthogonality(U),
        "residual": r.worst(r.norm(A - U @ P), r.norm(A), unit),
        "symmetry": r.worst(r.norm(P - _t(P)), r.norm(A), unit),
        "semidefinite": r.worst(np.asarray(least), r.norm(A), unit),
    }


def _trials() -> tuple[Trial, ...]:
    t = Trial
    return (
        t("qr", "qr", ("qr",), KINDS, LINEAR_LIMIT, lambda f, A: f.qr(A), r.qr, shapes=ALL_SHAPES),
        t(
            "qr complete", "qr", ("qr",), KINDS, LINEAR_LIMIT,
            lambda f, A: f.qr(A, "complete"), r.qr, shapes=ALL_SHAPES, long=False,
        ),
        t("qr r", "qr", ("qr",), KINDS, LINEAR_LIMIT, lambda f, A: (f.qr(A, "r")[1],), _only_r, shapes=ALL_SHAPES),
        t(
            "householder_product", "qr", ("householder_product",), KINDS, LINEAR_LIMIT,
            lambda f, A, h, tau: (f.householder_product(h, tau),), _of_reflectors, _reflectors, ("square", "tall"),
        ),
        t(
            "ormqr", "qr", ("ormqr",), KINDS, LINEAR_LIMIT,
            lambda f, h, tau, C: (f.ormqr(h, tau, C),), _times_q, _reflectors_and_sides, ("square", "tall"),
        ),
        t(
            "cholesky", "cholesky", ("cholesky",), POSITIVE_DEFINITE, LINEAR_LIMIT,
            lambda f, A: (f.cholesky(A),), r.cholesky,
        ),
        t(
            "cholesky upper", "cholesky", ("cholesky",), POSITIVE_DEFINITE, LINEAR_LIMIT,
            lambda f, A: (f.cholesky(A, upper=True),), lambda A, U: r.cholesky(A, U, upper=True),
        ),
        t(
            "cholesky_solve", "cholesky", ("cholesky_solve",), POSITIVE_DEFINITE, LINEAR_LIMIT,
            lambda f, L, B: (f.cholesky_solve(B, L),), _with_factor, _factor_and_sides,
        ),
        t(
            "cholesky_inverse", "cholesky", ("cholesky_inverse",),
            tuple(k for k in POSITIVE_DEFINITE if "flow" not in k), LINEAR_LIMIT,
            lambda f, L, B: (f.cholesky_inverse(L),), lambda L, B, X: r.inverse(L @ _t(L), X), _factor_and_sides,
        ),
        t("lu", "lu", ("lu",), KINDS, LINEAR_LIMIT, lambda f, A: f.lu(A), r.lu, shapes=ALL_SHAPES),
        t(
            "lu_factor, lu_solve", "lu", ("lu_factor", "lu_solve"), REGULAR, LINEAR_LIMIT,
            lambda f, A, B: (f.lu_solve(*f.lu_factor(A), B),), lambda A, B, X: r.solve(A, X, B), _right_sides,
            regular=True,
        ),
        t(
            "solve", "solve", ("solve",), REGULAR, LINEAR_LIMIT,
            lambda f, A, B: (f.solve(A, B),), lambda A, B, X: r.solve(A, X, B), _right_sides, regular=True,
        ),
        t(
            "solve from the right", "solve", ("solve",), REGULAR, LINEAR_LIMIT,
            lambda f, A, B: (f.solve(A, B, left=False),), lambda A, B, X: r.solve(_t(A), _t(r.doubles(X)), _t(B)),
            _left_sides, regular=True,
        ),
        t(
            "solve_triangular", "solve", ("solve_triangular",),
            ("triangular", "diagonal", "identity", "kahan"), LINEAR_LIMIT,
            lambda f, A, B: (f.solve_triangular(A, B, upper=True),), lambda A, B, X: r.solve(A, X, B), _triangle,
            regular=True,
        ),
        t("inv", "inverse", ("inv",), INVERTIBLE, LINEAR_LIMIT, lambda f, A: (f.inv(A),), r.inverse, regular=True),
        t(
            "slogdet", "inverse", ("slogdet",), WELL_CONDITIONED, LINEAR_LIMIT,
            lambda f, A: f.slogdet(A), _determinant,
        ),
        t(
            "det", "inverse", ("det",), WELL_CONDITIONED, LINEAR_LIMIT,
            lambda f, A: (f.det(A),), _plain_determinant, most=33,
        ),
        t("eigh", "eigh", ("eigh",), SYMMETRIC, EIGH_LIMIT, lambda f, A: f.eigh(A), r.eigh),
        t(
            "eigh of one triangle", "eigh", ("eigh",), SYMMETRIC, EIGH_LIMIT,
            lambda f, A, noisy: f.eigh(noisy), lambda A, noisy, W, V: r.eigh(A, W, V), _with_noise_above, most=64,
        ),
        t(
            "eigvalsh", "eigh", ("eigvalsh",), SYMMETRIC, EIGH_LIMIT,
            lambda f, A: (f.eigvalsh(A),), r.eigenvalues,
        ),
        t(
            "svd", "svd", ("svd",), KINDS, SVD_LIMIT,
            lambda f, A: f.svd(A, full_matrices=False), r.svd, shapes=ALL_SHAPES,
        ),
        t(
            "svd by Jacobi", "svd", ("svd",), KINDS, SVD_LIMIT,
            lambda f, A: f.svd(A, full_matrices=False, driver="gesvdj"), r.svd, shapes=ALL_SHAPES, long=False,
        ),
        t(
            "svd by a bidiagonal matrix", "svd", ("svd",), KINDS, SVD_LIMIT,
            lambda f, A: f.svd(A, full_matrices=False, driver="gesvd"), r.svd, shapes=ALL_SHAPES, most=128,
        ),
        t(
            "svd full", "svd", ("svd",), KINDS, SVD_LIMIT,
            lambda f, A: f.svd(A), r.svd, shapes=("tall", "wide"), most=200, long=False,
        ),
        t(
            "svdvals", "svd", ("svdvals",), KINDS, SVD_LIMIT,
            lambda f, A: (f.svdvals(A),), r.singular_values, shapes=ALL_SHAPES,
        ),
        t(
            "pinv", "lstsq", ("pinv",), (*WELL_CONDITIONED, *EXACTLY_SINGULAR), SVD_LIMIT,
            lambda f, A: (f.pinv(A),), _pseudoinverse, shapes=ALL_SHAPES, most=200,
        ),
        t(
            "lstsq", "lstsq", ("lstsq",), WELL_CONDITIONED, LINEAR_LIMIT,
            lambda f, A, B: (f.lstsq(A, B)[0],), _least_squares, _any_sides, ALL_SHAPES, 200,
        ),
        t(
            "matrix_rank", "lstsq", ("matrix_rank",), ("random", "orthogonal", "rank_deficient", "zero"), SVD_LIMIT,
            lambda f, A: (f.matrix_rank(A),), _rank, shapes=ALL_SHAPES, most=200,
        ),
        t(
            "cond", "lstsq", ("cond",), WELL_CONDITIONED, SVD_LIMIT,
            lambda f, A: (f.cond(A),), _condition, shapes=ALL_SHAPES, most=200,
        ),
        t(
            "matrix_norm", "lstsq", ("matrix_norm",), KINDS, SVD_LIMIT,
            lambda f, A: (f.matrix_norm(A),), _frobenius, shapes=ALL_SHAPES,
        ),
        t(
            "orthogonalize", "orthogonalize", ("orthogonalize",), KINDS, LINEAR_LIMIT,
            lambda f, A: (f.orthogonalize(A),), _basis, shapes=ALL_SHAPES,
        ),
        t(
            "complete_basis", "orthogonalize", ("complete_basis",), ("orthogonal", "identity"), LINEAR_LIMIT,
            lambda f, A: (f.complete_basis(A),), _completed, shapes=("square", "tall"), long=False,
        ),
        t(
            "polar", "orthogonalize", ("polar",), KINDS, SVD_LIMIT,
            lambda f, A: f.polar(A), _polar, shapes=ALL_SHAPES, long=False,
        ),
        t(
            "matmul", "matmul", ("matmul",), KINDS, LINEAR_LIMIT,
            lambda f, A, B: (f.matmul(A, B),), _product, _factors, ALL_SHAPES,
        ),
    )  # fmt: skip


TRIALS = {trial.name: trial for trial in _trials()}
