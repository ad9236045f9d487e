"""The largest singular values and their vectors, by block power iteration: kernels/linalg/svd_random.metal, matmul, qr
and svd (Halko, Martinsson and Tropp, SIAM Review 53, 2011)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

from metalcore.ops.base.check import dtype_name, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.batches import expand
from metalcore.ops.linalg.base.matrix import THREADS, Batch, check_matrix, promoted, thread_groups
from metalcore.ops.linalg.base.product import Block, matmul, multiply, update
from metalcore.ops.linalg.base.qr import factorise
from metalcore.ops.linalg.base.reflectors import joined
from metalcore.ops.linalg.base.result import named
from metalcore.ops.linalg.base.singular import check, decompose
from metalcore.ops.linalg.svd import gradient as svd_gradient
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["svd_lowrank", "topk_svd"]
RANDOM = Kernel("linalg/svd_random", "svd_random")
NEGATIVE = Kernel("linalg/svd_gradient", "svd_negative")
OVERSAMPLING = 8
LARGEST_SEED = 1 << 32


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """(U, S, V) with A - M about U diag(S) V^T: the `q` largest singular values, found in a random subspace after
    `niter` power iterations. The start is the same in every call. The gradient is that of the decomposition, not of the
    iteration: that of S holds where the vectors have converged, that of U and V where A - M has rank `q` besides.

    >>> import numpy as np, metalcore
    >>> A = np.outer(np.array([3.0, 4.0]), np.array([1.0, 0.0, 0.0])).astype(np.float32)
    >>> np.round(metalcore.linalg.svd_lowrank(A, q=1)[1], 4)
    array([5.], dtype=float32)
    """
    op = "linalg.svd_lowrank"
    check_matrix(op, "A", A)
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    _check_counts(op, q=q, niter=niter)
    if M is not None:
        if check_matrix(op, "M", M) != dtype_name(A):
            refuse(op, "M", f"of A's dtype, {dtype_name(A)}", f"of dtype {dtype_name(M)}")
        M = _broadcast(op, M, tuple(A.shape))
    return SVD_LOWRANK(A, M, min(q, *A.shape[-2:]), niter, 0)


def topk_svd(A: Any, k: int, *, niter: int = 2, oversampling: int = OVERSAMPLING, seed: int = 0) -> Any:
    """(U, S, Vh) of the `k` largest singular values. `oversampling` more are iterated on, and left out at the end.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.topk_svd(np.diag(np.array([1.0, 3.0, 2.0], np.float32)), 2).S.round(4)
    array([3., 2.], dtype=float32)
    """
    op = "linalg.topk_svd"
    check_matrix(op, "A", A)
    _check_counts(op, k=k, niter=niter)
    if k > min(A.shape[-2:]):
        refuse(op, "k", f"at most {min(A.shape[-2:])}, the smaller size of A", str(k))
    if not isinstance(oversampling, int) or oversampling < 0:
        refuse(op, "oversampling", "an int of at least 0", repr(oversampling))
    if not isinstance(seed, int) or not 0 <= seed < LARGEST_SEED:
        refuse(op, "seed", "an int from 0 to 2^32 - 1", repr(seed))
    U, S, V = SVD_LOWRANK(A, None, min(k + oversampling, *A.shape[-2:]), niter, seed)
    return named("linalg_svd", "U S Vh", (U[..., :, :k], S[..., :k], V[..., :, :k].swapaxes(-1, -2)))


def _check_counts(op: str, **counts: Any) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            refuse(op, name, "an int of at least 0", repr(value))


def _broadcast(op: str, M: Any, shape: tuple[int, ...]) -> Any:
    if len(M.shape) > len(shape) or any(a not in (1, b) for a, b in zip(M.shape[::-1], shape[::-1], strict=False)):
        refuse(op, "M", f"of a shape that broadcasts to {shape}", f"of shape {tuple(M.shape)}")
    return expand(M, shape)


@stage("(Tensor A, Tensor? M, int q, int niter, int seed) -> (Tensor U, Tensor S, Tensor V)")
def forward(run: Runtime, A: Any, M: Any, q: int, niter: int, seed: int) -> tuple[Any, ...]:
    work, mean = promoted(run, A), None if M is None else promoted(run, M)
    batch, dtype, given = Batch.of(work), run.dtype(work), run.dtype(A)
    is_wide = bool(batch.rows < batch.columns)
    few = min(batch.rows, batch.columns)

    def product(other: Any, transpose: bool) -> Any:
        """The tall one of A - M and its transposed, or with `transpose` the wide one, times a thin matrix."""
        flag = transpose != is_wide
        found = _times_thin(run, work, other, flag)
        if mean is None:
            return found
        return update(run, Block.of(found), Block.of(mean), Block.of(other), alpha=-1.0, transpose_a=flag)

    count = batch.number * few * q
    arguments = dict(out=Out(batch.shape(few, q), dtype), count=count, seed=seed)
    (start,) = run.launch(RANDOM, (dtype,), (), arguments, thread_groups(count), (THREADS,))
    basis, _ = factorise(run, product(start, False), "reduced")
    for _ in range(niter):
        basis, _ = factorise(run, product(basis, True), "reduced")
        basis, _ = factorise(run, product(basis, False), "reduced")
    rest = decompose(run, product(basis, True))  # few x q: the transposed of what is left of the tall matrix
    check(run, rest.info, len(A.shape) > 2)
    far = matmul(run, basis, run.contiguous(rest.vh), transpose_b=True)
    left, right = (rest.u, far) if is_wide else (far, rest.u)
    return run.cast(left, given), run.cast(rest.values, given), run.cast(right, given)


def _times_thin(run: Runtime, a: Any, thin: Any, transpose: bool) -> Any:
    """op(a) times a thin matrix. Not transposed, a band of columns at a time: bands do not depend on each other, and
    each has a stream of its own where the runtime has streams. Transposed, as thin^T a: rows of `a` are read as they
    lie in memory, and no part of a tile is idle."""
    if transpose:
        return run.contiguous(matmul(run, thin, a, transpose_a=True).swapaxes(-1, -2))
    rows, q = thin.shape[-2:]
    band = policy("linalg_svd_lowrank", run.family, run.dtype(a))["band"]
    found = []
    for number, first in enumerate(range(0, max(1, q), band)):
        columns = Block(thin, 0, first, rows, min(band, q - first))
        with run.stream(number) if q > band else nullcontext():
            found.append(multiply(run, Block.of(a), columns))
    return reduce(lambda left, right: joined(run, left, right), found)


@stage(
    "(Tensor grad_U, Tensor grad_S, Tensor grad_V, Tensor U, Tensor S, Tensor V, Tensor? M, bool[] wanted)"
    " -> (Tensor dA, Tensor dM)"
)
def backward(
    run: Runtime, grad_U: Any, grad_S: Any, grad_V: Any, U: Any, S: Any, V: Any, M: Any, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    turned = (x.swapaxes(-1, -2) for x in (grad_V, V))
    grad_Vh, Vh = turned
    gradient = run.cast(svd_gradient(run, grad_U, grad_S, grad_Vh, U, S, Vh), run.dtype(U))
    negative = run.empty((0,), run.dtype(U))
    if M is not None and wanted[1]:
        count = math.prod(gradient.shape)
        arguments = dict(a=gradient, out=Out(tuple(gradient.shape), run.dtype(gradient)), count=count)
        (negative,) = run.launch(NEGATIVE, (run.dtype(gradient),), (), arguments, thread_groups(count), (THREADS,))
    return gradient, negative


SVD_LOWRANK = Op(
    "linalg_svd_lowrank",
    "the largest singular values and their vectors, by block power iteration",
    forward,
    backward,
    namesake="torch.svd_lowrank",
)
OPS = (SVD_LOWRANK,)
