"""Eigenvalues and eigenvectors of symmetric matrices: kernels/linalg/eigh.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.matrix import (
    LANES,
    Batch,
    capacity,
    check_square,
    kept,
    lane_groups,
    promoted,
    strip_groups,
    unrounded,
)
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["eigh", "eigvalsh"]
IN_LANES = Kernel("linalg/eigh", "eigh_lanes")
GRADIENT = Kernel("linalg/eigh_gradient", "eigh_gradient")
VALUES_GRADIENT = Kernel("linalg/eigh_gradient", "eigvalsh_gradient")
TRIDIAGONALISE = Kernel("linalg/tridiagonal", "tridiagonalise")
TRIDIAGONAL_EIGH = Kernel("linalg/tridiagonal", "tridiagonal_eigh")


def eigh(A: Any, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices: A = V diag(w) V^T, w ascending. One triangle of A is read.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.eigh(np.array([[2.0, 0.0], [0.0, 1.0]], np.float32)).eigenvalues
    array([1., 2.], dtype=float32)
    """
    check_square("linalg.eigh", "A", A)
    values, vectors = EIGH(A, _is_upper("linalg.eigh", UPLO))
    return named("linalg_eigh", "eigenvalues eigenvectors", (values, vectors))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, ascending."""
    check_square("linalg.eigvalsh", "A", A)
    return EIGVALSH(A, _is_upper("linalg.eigvalsh", UPLO))


def _is_upper(op: str, UPLO: Any) -> bool:
    if not isinstance(UPLO, str) or UPLO not in ("L", "l", "U", "u"):
        refuse(op, "UPLO", "'L' or 'U'", repr(UPLO))
    return UPLO in "Uu"


def decompose(run: Runtime, A: Any, is_upper: bool, has_vectors: bool) -> tuple[Any, Any]:
    """Eigenvalues, and eigenvectors (an array of no elements where they are not wanted), not yet in A's dtype."""
    batch, n = Batch.of(A), A.shape[-1]
    work = promoted(run, A)
    chosen = policy("linalg_eigh", run.family, run.dtype(work))
    in_lanes = n <= LANES and (n <= chosen["tiny"] or batch.number >= chosen["least"])
    values, vectors, info = (_in_lanes if in_lanes else _in_groups)(run, work, batch, n, (is_upper, has_vectors))
    is_batch = len(A.shape) > 2
    run.check_info(info, lambda at, code: _explain(at, code, is_batch))
    return values, vectors


def _outs(batch: Batch, n: int, dtype: str, has_vectors: bool) -> dict[str, Out]:
    vectors = Out(batch.shape(n, n) if has_vectors else (0,), dtype)
    return dict(values=Out(batch.shape(n), dtype), vectors=vectors, info=Out(batch.leading, "int32"))


def _in_lanes(run: Runtime, a: Any, batch: Batch, n: int, wanted: tuple[bool, bool]) -> list[Any]:
    dtype, (is_upper, has_vectors) = run.dtype(a), wanted
    arguments = dict(a=a, **_outs(batch, n, dtype, has_vectors), count=batch.number, size=n)
    arguments |= dict(upper=is_upper, with_vectors=has_vectors)
    types = (dtype, capacity(max(n, policy("linalg_eigh", run.family, dtype)["capacity"])))
    found: list[Any] = run.launch(IN_LANES, types, (), arguments, lane_groups(batch.number), (LANES,))
    return found


def _in_groups(run: Runtime, a: Any, batch: Batch, n: int, wanted: tuple[bool, bool]) -> list[Any]:
    is_upper, has_vectors = wanted
    dtype, number = run.dtype(a), batch.number
    chosen = policy("linalg_eigh", run.family, dtype)
    row, strips = Out((number, n), dtype), -(-n // LANES)
    threads = min(chosen["threads"], strips * LANES)
    room = Out((number, 2 + threads // LANES, strips * LANES), dtype)
    arguments = dict(a=a, turned=Out((number, n, strips * LANES), dtype), diagonal=row, off=row, taus=row)
    arguments |= dict(scales=Out((number,), dtype), room=room, size=n, upper=is_upper)
    turned, diagonal, off, taus, scales, _ = run.launch(TRIDIAGONALISE, (dtype,), (), arguments, (number,), (threads,))
    shares = strip_groups(chosen["groups"], strips, number) if has_vectors else 1
    arguments = dict(turned=turned, diagonal=diagonal, off=off, taus=taus, scales=scales)
    arguments |= dict(strips=Out((number, strips, n, LANES) if has_vectors else (0,), dtype))
    arguments |= dict(room=Out((number, shares, 4, n), dtype), orders=Out((number, shares, n), "int32"))
    arguments |= dict(**_outs(batch, n, dtype, has_vectors), size=n, with_vectors=has_vectors)
    found = run.launch(TRIDIAGONAL_EIGH, (dtype,), (), arguments, (shares, number), (LANES,))
    last: list[Any] = found[3:]
    return last


def _explain(position: int, code: int, is_batch: bool) -> str:
    return (
        f"{batch_element('linalg.eigh', position, is_batch)}The algorithm failed to converge because the input matrix "
        f"is ill-conditioned or has too many repeated eigenvalues (error code: {code})."
    )


@stage("(Tensor A, bool upper) -> (Tensor eigenvalues, Tensor eigenvectors, Tensor kept_values, Tensor kept_vectors)")
def forward(run: Runtime, A: Any, upper: bool) -> tuple[Any, ...]:
    found, given = decompose(run, A, upper, True), run.dtype(A)
    return *(run.cast(x, given) for x in found), *kept(run, given, found)


@stage("(Tensor A, bool upper) -> Tensor eigenvalues")
def forward_values(run: Runtime, A: Any, upper: bool) -> tuple[Any, ...]:
    return (run.cast(decompose(run, A, upper, False)[0], run.dtype(A)),)


@stage(
    "(Tensor grad_eigenvalues, Tensor grad_eigenvectors, Tensor eigenvalues, Tensor eigenvectors, "
    "Tensor kept_values, Tensor kept_vectors) -> Tensor dA"
)
def backward(run: Runtime, *arrays: Any) -> tuple[Any, ...]:
    """Differences of eigenvalues divide: those of rounded ones may be 0."""
    (dvalues, dvectors), found, kept_ones = (promoted(run, x) for x in arrays[:2]), arrays[2:4], arrays[4:]
    values, vectors = unrounded(run, found, kept_ones)
    batch, dtype, n = Batch.of(vectors), run.dtype(vectors), vectors.shape[-1]
    arguments = dict(p=matmul(run, vectors, dvectors, transpose_a=True), values=values, grad_values=dvalues)
    arguments |= dict(m=Out(batch.shape(n, n), dtype), size=n)
    (middle,) = run.launch(GRADIENT, (dtype,), (), arguments, (batch.number * n,), (LANES,))
    gradient = matmul(run, matmul(run, vectors, middle), vectors, transpose_b=True)
    return (run.cast(gradient, run.dtype(found[1])),)


@stage("(Tensor grad_eigenvalues, Tensor A, bool upper) -> Tensor dA")
def backward_values(run: Runtime, grad_eigenvalues: Any, A: Any, upper: bool) -> tuple[Any, ...]:
    """The vectors are found here: who asks for eigenvalues alone should not wait for them."""
    vectors, dvalues = decompose(run, A, upper, True)[1], promoted(run, grad_eigenvalues)
    batch, dtype, n = Batch.of(vectors), run.dtype(vectors), vectors.shape[-1]
    arguments = dict(vectors=vectors, grad_values=dvalues, scaled=Out(batch.shape(n, n), dtype), size=n)
    (scaled,) = run.launch(VALUES_GRADIENT, (dtype,), (), arguments, (batch.number * n,), (LANES,))
    return (run.cast(matmul(run, scaled, vectors, transpose_b=True), run.dtype(A)),)


EIGH = Op("linalg_eigh", "A = V diag(w) V^T", forward, backward, kept=2, namesake="torch.linalg.eigh")
EIGVALSH = Op(
    "linalg_eigvalsh",
    "the eigenvalues of a symmetric matrix",
    forward_values,
    backward_values,
    namesake="torch.linalg.eigvalsh",
)
OPS = (EIGH, EIGVALSH)
