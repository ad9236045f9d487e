# Made by `python -m tests.ops.stubs`; do not edit.
# ruff: noqa

from collections.abc import Sequence
from typing import Any

def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L of A = L L^T, or with `upper` the U of A = U^T U; A is symmetric positive definite."""

def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): no error is raised; `info` is the order of the first minor that is not positive definite, or 0."""

def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A = L L^T, or with `upper` of A = L^T L; the other triangle of L is not read."""

def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """X of A X = B, where A = L L^T, or with `upper` A = L^T L; the other triangle of L is not read."""

def complete_basis(Q: Any) -> Any:
    """The orthogonal m x m matrix that begins with the k orthonormal columns of Q (m x k): m - k columns are added."""

def cond(A: Any, p: Any = None) -> Any:
    """The condition number |A| |A^-1| in the norm `p`: None, 2 and -2 are quotients of singular values and take any
    shape; 1, -1, inf, -inf, "fro" and "nuc" take square matrices, and give inf where there is no inverse."""

def det(A: Any) -> Any:
    """The determinant. Where it is 0 its gradient is 0, as torch's; the true one is not where only one rank is missing."""

def eigh(A: Any, UPLO: str = 'L') -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices: A = V diag(w) V^T, w ascending. One triangle of A is read."""

def eigvalsh(A: Any, UPLO: str = 'L') -> Any:
    """The eigenvalues of symmetric matrices, ascending."""

def geqrf(input: Any) -> Any:
    """(a, tau): R above the diagonal of `a`, Householder's vectors below it, as LAPACK and torch.geqrf return them."""

def householder_product(A: Any, tau: Any) -> Any:
    """The first columns of H_0 H_1 ..., where H_i = I - tau_i v_i v_i^T and v_i stands below the diagonal of A."""

def inv(A: Any) -> Any:
    """The inverse. A singular matrix is an error."""

def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """(inverse, info): no error is raised; `info` is the number of the first pivot that is zero, or 0."""

def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values): the X with the least |A X - B|, and of these the smallest one."""

def lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P L U: a permutation, a lower triangle with a diagonal of 1, an upper triangle. Without
    `pivot` rows are not exchanged, and P has no elements."""

def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(LU, pivots): L, whose diagonal of 1 is not stored, and U in one matrix; row i was exchanged with row
    pivots[i] - 1, one after the other. What lu_solve takes. A zero on the diagonal of U is an error."""

def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): no error is raised; `info` is the number of the first zero on U's diagonal, or 0."""

def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X of A X = B, where (LU, pivots) is what lu_factor gives for A; of A^T X = B with `adjoint`. Where not `left`, of
    X A = B or X A^T = B."""

def matmul(input: Any, other: Any) -> Any:
    """The matrix product of two arrays, as torch.linalg.matmul: batches of matrices broadcast, vectors have no batch."""

def matrix_norm(A: Any, ord: Any = 'fro', dim: Any = ..., keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of matrices in two dimensions: "fro", "nuc" (sum of the singular values), 1 and -1 (largest and least
    sum of a column), inf and -inf (of a row), 2 and -2 (largest and least singular value)."""

def matrix_rank(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """How many singular values are above max(atol, rtol * the largest); the defaults are those of `pinv`."""

def newton_schulz(G: Any, steps: int = 5, coefficients: Sequence[float] = ..., eps: float = 1e-07) -> Any:
    """G with its singular values moved near 1, as the Muon optimizer does it: X = G / (|G| + eps), then `steps` times
    X := a X + (b X X^T + c (X X^T)^2) X. With Muon's coefficients singular values end between about 0.7 and 1.2."""

def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of vectors or matrices, by `ord` and `dim`: without `ord` that of all elements as one vector."""

def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q `other`, or `other` Q where not `left`, with Q the whole product of the reflectors in `input` and `tau`, or
    with its transpose."""

def orthogonalize(A: Any) -> Any:
    """A matrix of A's shape with orthonormal columns that span those of A, or with orthonormal rows where A has fewer
    rows than columns."""

def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudoinverse. Singular values up to max(atol, rtol * the largest) count as zero."""

def polar(A: Any) -> Any:
    """(U, P) with A = U P: U has orthonormal columns (or rows, where there are fewer), P is symmetric positive
    semidefinite, n x n."""

def qr(A: Any, mode: str = 'reduced') -> Any:
    """(Q, R) with A = Q R: the columns of Q are orthonormal, R is upper triangular."""

def slogdet(A: Any) -> Any:
    """(sign, logabsdet): the determinant's sign, and the logarithm of its size: 0 and -inf for a singular matrix."""

def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X of A X = B, or of X A = B where not `left`. B is a matrix, a vector, or a batch of either: vectors where it has
    one dimension, or where its shape is that of A without the last dimension. A singular A is an error."""

def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info): no error is raised; `info` is the number of the first pivot that is zero, or 0."""

def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X of A X = B, or of X A = B where not `left`. Only the upper or the lower triangle of A is read; with
    `unitriangular` its diagonal is taken to be 1."""

def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh: U and Vh are orthogonal, S is not negative and descending."""

def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """(U, S, V) with A - M about U diag(S) V^T: the `q` largest singular values, found in a random subspace after
    `niter` power iterations. The start is the same in every call. The gradient is that of the decomposition, not of the
    iteration: that of S holds where the vectors have converged, that of U and V where A - M has rank `q` besides."""

def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """The singular values of a matrix, descending. `driver` is that of `svd`."""

def topk_svd(A: Any, k: int, *, niter: int = 2, oversampling: int = 8, seed: int = 0) -> Any:
    """(U, S, Vh) of the `k` largest singular values. `oversampling` more are iterated on, and left out at the end."""

def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """(sum |x|^ord)^(1 / ord) along `dim`, or of all elements; ord may be inf, -inf or 0 (how many are not 0)."""
