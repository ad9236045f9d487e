"""Eigenvalues and eigenvectors of symmetric matrices: kernels/linalg/eigh.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import refuse
from metalcore.ops.base.draw import Draw, Sample
from metalcore.ops.base.op import Op, Stage
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, check_square, lane_groups, promoted
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

__all__ = ["eigh", "eigvalsh"]
IN_LANES = Kernel("linalg/eigh", "eigh_lanes", ("is_upper", "has_vectors"))
TRIDIAGONALISE = Kernel("linalg/tridiagonal", "tridiagonalise", ("is_upper",))
TRIDIAGONAL_EIGH = Kernel("linalg/tridiagonal", "tridiagonal_eigh", ("has_vectors",))


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


def _solve(run: Any, A: Any, is_upper: bool, has_vectors: bool) -> tuple[Any, Any]:
    batch, n = Batch.of(A), A.shape[-1]
    work = promoted(run, A)
    chosen = policy("linalg_eigh", run.family, run.dtype(work))
    in_lanes = n <= LANES and (n <= chosen["tiny"] or batch.number >= chosen["least"])
    values, vectors, info = (_in_lanes if in_lanes else _in_groups)(run, work, batch, n, (is_upper, has_vectors))
    is_batch = len(A.shape) > 2
    run.check_info(info, lambda at, code: _explain(at, code, is_batch))
    given = run.dtype(A)
    return run.cast(values, given), run.cast(vectors, given)


def _outs(batch: Batch, n: int, dtype: str, has_vectors: bool) -> tuple[Out, Out, Out]:
    vectors = Out(batch.shape(n, n) if has_vectors else (0,), dtype)
    return Out(batch.shape(n), dtype), vectors, Out(batch.leading, "int32")


def _in_lanes(run: Any, a: Any, batch: Batch, n: int, constants: tuple[bool, bool]) -> list[Any]:
    dtype = run.dtype(a)
    arguments = (a, *_outs(batch, n, dtype, constants[1]), batch.number, n)
    types = (dtype, capacity(n))
    found: list[Any] = run.launch(IN_LANES, types, constants, arguments, lane_groups(batch.number), (LANES,))
    return found


def _in_groups(run: Any, a: Any, batch: Batch, n: int, constants: tuple[bool, bool]) -> list[Any]:
    is_upper, has_vectors = constants
    dtype, number = run.dtype(a), batch.number
    chosen = policy("linalg_eigh", run.family, dtype)
    rows = [Out((number, n), dtype)] * 3
    arguments = (a, Out((number, n, n), dtype), *rows, Out((number,), dtype), Out((number, 2, n), dtype), n)
    threads = (min(chosen["threads"], -(-n // LANES) * LANES),)
    *reduced, _ = run.launch(TRIDIAGONALISE, (dtype,), (is_upper,), arguments, (number,), threads)
    strips = -(-n // LANES)
    shares = min(strips, -(-chosen["groups"] // max(1, number))) if has_vectors else 1
    room = (Out((number, shares, 4, n), dtype), Out((number, shares, n), "int32"))
    strip = Out((number, strips, n, LANES) if has_vectors else (0,), dtype)
    arguments = (*reduced, strip, *room, *_outs(batch, n, dtype, has_vectors), n)
    found = run.launch(TRIDIAGONAL_EIGH, (dtype,), (has_vectors,), arguments, (shares, number), (LANES,))
    last: list[Any] = found[3:]
    return last


def _explain(position: int, code: int, is_batch: bool) -> str:
    return (
        f"{batch_element('linalg.eigh', position, is_batch)}The algorithm failed to converge because the input matrix "
        f"is ill-conditioned or has too many repeated eigenvalues (error code: {code})."
    )


def forward(run: Any, A: Any, upper: bool) -> tuple[Any, ...]:
    return _solve(run, A, upper, True)


def forward_values(run: Any, A: Any, upper: bool) -> tuple[Any, ...]:
    return _solve(run, A, upper, False)[:1]


def reference(A: Any, UPLO: str = "L") -> Any:
    import torch

    return torch.linalg.eigh(A, UPLO)


def reference_values(A: Any, UPLO: str = "L") -> Any:
    import torch

    return torch.linalg.eigvalsh(A, UPLO)


def samples(draw: Draw) -> Sample:
    n = draw.size(most=33)
    return Sample((draw.floats((*draw.leading(most=1), n, n)),), {"UPLO": draw.choice("LU")})


EIGH = Op(
    noun="linalg_eigh",
    summary="A = V diag(w) V^T",
    forward=Stage("(Tensor A, bool upper) -> (Tensor eigenvalues, Tensor eigenvectors)", forward),
    reference=reference,
    samples=samples,
    public_outputs=2,
    namesake="torch.linalg.eigh",
)
EIGVALSH = Op(
    noun="linalg_eigvalsh",
    summary="the eigenvalues of a symmetric matrix",
    forward=Stage("(Tensor A, bool upper) -> Tensor eigenvalues", forward_values),
    reference=reference_values,
    samples=samples,
    namesake="torch.linalg.eigvalsh",
)
OPS = (EIGH, EIGVALSH)
