"""Linear algebra of mlx's own functions, which run on the CPU. Vectors have signs of their own, as those of every
decomposition have. Where a matrix has none, mlx's functions raise as they do, or give what is no number.

mlx writes no LU factorisation into a file: systems are solved by a QR factorisation instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metalcore.arrays.mlx import mlx_module
from metalcore.mlx.compositions.wide import refuse_export, wide


def _turned(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _of(name: str, x: Any, *arguments: Any, **named: Any) -> Any:
    """A function of mx.linalg on the CPU; of nothing it would not come back."""
    mx = mlx_module()
    if not x.size:
        refuse_export("linalg", f"mx.linalg.{name} takes no matrices without elements")
    return getattr(mx.linalg, name)(wide(x), *arguments, **named, stream=mx.cpu)


def _cholesky(A: Any, upper: bool) -> Any:
    return _of("cholesky", A, upper=upper).astype(A.dtype)


def _cholesky_inverse(L: Any, upper: bool) -> Any:
    return _of("cholesky_inv", L, upper=upper).astype(L.dtype)


def _triangular(A: Any, B: Any, upper: bool) -> Any:
    mx = mlx_module()
    return _of("solve_triangular", mx.triu(A) if upper else mx.tril(A), wide(B), upper=upper)


def _cholesky_solve(B: Any, L: Any, upper: bool) -> Any:
    lower = _turned(L) if upper else L
    return _triangular(_turned(lower), _triangular(lower, B, False), True).astype(B.dtype)


def _solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    mx = mlx_module()
    if unitriangular:
        A = (mx.triu(A, 1) if upper else mx.tril(A, -1)) + mx.eye(A.shape[-1], dtype=A.dtype)
    x = _triangular(A, B, upper) if left else _turned(_triangular(_turned(A), _turned(B), not upper))
    return x.astype(B.dtype)


def _eigh(A: Any, upper: bool) -> tuple[Any, Any]:
    values, vectors = _of("eigh", A, "U" if upper else "L")
    return values.astype(A.dtype), vectors.astype(A.dtype)


def _eigvalsh(A: Any, upper: bool) -> Any:
    return _eigh(A, upper)[0]


def _inv(A: Any) -> Any:
    return _of("inv", A).astype(A.dtype)


def _solve(A: Any, B: Any, left: bool) -> Any:
    q, r = _of("qr", A if left else _turned(A))
    x = _triangular(r, _turned(q) @ wide(B if left else _turned(B)), True)
    return (x if left else _turned(x)).astype(B.dtype)


def _qr(A: Any, mode: str) -> tuple[Any, Any]:
    mx = mlx_module()
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        refuse_export("linalg_qr", 'mlx has no QR factorisation with mode="complete"')
    q, r = _of("qr", A)
    return mx.zeros((0,), A.dtype) if mode == "r" else q.astype(A.dtype), r.astype(A.dtype)


def _orthogonalize(A: Any) -> tuple[Any]:
    mx, is_wide = mlx_module(), A.shape[-2] < A.shape[-1]
    q, r = _of("qr", _turned(A) if is_wide else A)
    signs = mx.where(mx.diagonal(r, 0, -2, -1) < 0, -1.0, 1.0)
    q = q * signs[..., None, :]
    return ((_turned(q) if is_wide else q).astype(A.dtype),)


def _svd_parts(A: Any) -> tuple[Any, Any, Any]:
    """With min(m, n) columns and rows."""
    u, s, vh = _of("svd", A)
    return u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :]


def _check_driver(driver: str) -> None:
    if driver == "gesvdj":
        refuse_export("linalg_svd", 'mlx\'s has not the digits of driver="gesvdj" in small singular values')


def _svd(A: Any, full_matrices: bool, driver: str) -> tuple[Any, Any, Any]:
    _check_driver(driver)
    u, s, vh = _of("svd", A) if full_matrices else _svd_parts(A)
    return u.astype(A.dtype), s.astype(A.dtype), vh.astype(A.dtype)


def _svdvals(A: Any, driver: str) -> Any:
    _check_driver(driver)
    return _of("svd", A, compute_uv=False).astype(A.dtype)


def _complete_basis(Q: Any) -> Any:
    mx = mlx_module()
    others = _of("svd", Q)[0][..., Q.shape[-1] :]
    return mx.concatenate((Q, others.astype(Q.dtype)), -1)


def _above(values: Any, atol: float, rtol: float) -> Any:
    """Which singular values count."""
    return values > mlx_module().maximum(atol, rtol * values[..., :1])


def _as_read(A: Any, hermitian: bool) -> Any:
    mx = mlx_module()
    return mx.tril(A) + _turned(mx.tril(A, -1)) if hermitian else A


def _inverted(values: Any, atol: float, rtol: float) -> Any:
    mx, counts = mlx_module(), _above(values, atol, rtol)
    return mx.where(counts, 1 / mx.where(counts, values, 1.0), 0.0)


def _pinv(A: Any, atol: float, rtol: float, hermitian: bool) -> Any:
    u, s, vh = _svd_parts(_as_read(A, hermitian))
    return ((_turned(vh) * _inverted(s, atol, rtol)[..., None, :]) @ _turned(u)).astype(A.dtype)


def _matrix_rank(A: Any, atol: float, rtol: float, hermitian: bool) -> Any:
    s = _of("svd", _as_read(A, hermitian), compute_uv=False)
    return _above(s, atol, rtol).sum(-1).astype(mlx_module().int64)


def _lstsq(A: Any, B: Any, rcond: float) -> tuple[Any, ...]:
    mx, b = mlx_module(), wide(B)
    u, s, vh = _svd_parts(A)
    x = _turned(vh) @ (_inverted(s, 0.0, rcond)[..., None] * (_turned(u) @ b))
    rest = wide(A) @ x - b
    rank = _above(s, 0.0, rcond).sum(-1).astype(mx.int64)
    return x.astype(A.dtype), (rest * rest).sum(-2).astype(A.dtype), rank, s.astype(A.dtype)


def _polar(A: Any) -> tuple[Any, Any]:
    u, s, vh = _svd_parts(A)
    p = _turned(vh) @ (s[..., None] * vh)
    return (u @ vh).astype(A.dtype), ((p + _turned(p)) / 2).astype(A.dtype)


def _newton_schulz(G: Any, steps: int, a: float, b: float, c: float, eps: float) -> Any:
    mx, is_tall = mlx_module(), G.shape[-2] > G.shape[-1]
    x = wide(_turned(G) if is_tall else G)
    x = x / (mx.sqrt((x * x).sum((-2, -1), keepdims=True)) + eps)
    for _ in range(steps):
        gram = x @ _turned(x)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (_turned(x) if is_tall else x).astype(G.dtype)


def _matmul(a: Any, b: Any) -> Any:
    return (wide(a) @ wide(b)).astype(a.dtype)


def _vector_norm(x: Any, order: float, dim: Any, keepdim: bool) -> Any:
    mx = mlx_module()
    axes, size = list(dim), mx.abs(wide(x))
    if not x.size:
        refuse_export("linalg_vector_norm", "mlx's sums take no arrays without elements")
    if math.isinf(order):
        found = size.max(axes, keepdims=keepdim) if order > 0 else size.min(axes, keepdims=keepdim)
    elif order == 0:
        found = (size != 0).astype(size.dtype).sum(axes, keepdims=keepdim)
    elif order == 1:
        found = size.sum(axes, keepdims=keepdim)
    else:  # of numbers near 1, so that no power overflows
        most = mx.stop_gradient(size.max(axes, keepdims=True))
        most = mx.where((most > 0) & (most < mx.inf), most, 1.0)
        found = ((size / most) ** order).sum(axes, keepdims=True) ** (1 / order) * most
        found = found if keepdim else found.squeeze(axes)
    return found.astype(x.dtype)


LINALG: dict[str, Callable[..., Any]] = {
    "linalg_cholesky": _cholesky,
    "linalg_cholesky_inverse": _cholesky_inverse,
    "linalg_cholesky_solve": _cholesky_solve,
    "linalg_complete_basis": _complete_basis,
    "linalg_eigh": _eigh,
    "linalg_eigvalsh": _eigvalsh,
    "linalg_inv": _inv,
    "linalg_lstsq": _lstsq,
    "linalg_matmul": _matmul,
    "linalg_matrix_rank": _matrix_rank,
    "linalg_newton_schulz": _newton_schulz,
    "linalg_orthogonalize": _orthogonalize,
    "linalg_pinv": _pinv,
    "linalg_polar": _polar,
    "linalg_qr": _qr,
    "linalg_solve": _solve,
    "linalg_solve_triangular": _solve_triangular,
    "linalg_svd": _svd,
    "linalg_svdvals": _svdvals,
    "linalg_vector_norm": _vector_norm,
}
_LU = "mlx writes no LU factorisation into a file"
_INFO = "mlx's functions raise where this one gives a number; use the function without _ex"
_REFLECTORS = "mlx has no reflectors; use linalg.qr"
NO_LINALG: dict[str, str] = {
    **{f"linalg_{name}": _LU for name in ("det", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "slogdet")},
    **{f"linalg_{name}": _INFO for name in ("cholesky_ex", "inv_ex", "solve_ex")},
    **{f"linalg_{name}": _REFLECTORS for name in ("geqrf", "householder_product", "ormqr")},
    "linalg_svd_lowrank": "mlx has not its random start; use linalg.svd",
}
