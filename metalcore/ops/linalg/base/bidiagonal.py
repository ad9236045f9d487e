"""Singular value decompositions of large matrices by way of a bidiagonal one: kernels/linalg/bidiagonal*.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.linalg.base.matrix import LANES, Batch, strip_groups
from metalcore.ops.linalg.base.product import Block, multiply
from metalcore.ops.linalg.base.qr import factorise
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

REDUCE = Kernel("linalg/bidiagonal", "bidiagonalise")
ITERATE = Kernel("linalg/bidiagonal_svd", "bidiagonal_svd")
VECTORS = Kernel("linalg/bidiagonal_svd", "bidiagonal_vectors")
COMPLETE = Kernel("linalg/bidiagonal_svd", "bidiagonal_complete")


def decompose(run: Runtime, work: Any, batch: Batch, dtype: str, has_vectors: bool, lefts: int) -> tuple[Any, ...]:
    """left, values, right and info of n x m matrices with n <= m: right^T diag(values) left, vectors as rows."""
    n, m = batch.rows, batch.columns
    if n == m:
        right, values, left, info = _square(run, work, batch, dtype, has_vectors)
        return left, values, right, info
    # work = R^T Q^T: the left vectors of R are turned by Q.
    mode = "r" if not has_vectors else "complete" if lefts > n else "reduced"
    q, r = factorise(run, run.contiguous(work.swapaxes(-1, -2)), mode)
    del work
    if mode == "complete":
        r = run.contiguous(r[..., :n, :])
    left, values, right, info = _square(run, r, Batch.of(r), dtype, has_vectors)
    del r
    if has_vectors:
        left = multiply(run, Block.of(left), Block(q, 0, 0, m, n), transpose_b=True)
    if mode == "complete":
        arguments = dict(first=left, q=q, out=Out(batch.shape(m, m), dtype), few=n, size=m)
        (left,) = run.launch(COMPLETE, (dtype,), (), arguments, (m, batch.number), (LANES,))
    return left, values, right, info


def _square(run: Runtime, a: Any, batch: Batch, dtype: str, has_vectors: bool) -> tuple[Any, Any, Any, Any]:
    """U^T, the values, V^T, info."""
    number, n = batch.number, batch.rows
    chosen = policy("linalg_svd", run.family, dtype)
    strips = -(-n // LANES)
    threads = min(chosen["bidiagonal_threads"], strips * LANES)
    square, row = Out((number, n, strips * LANES), dtype), Out((number, n), dtype)
    room = Out((number, 2 + threads // LANES, strips * LANES), dtype)
    arguments = dict(a=a, work=square, lefts=square, diagonal=row, off=row, left_taus=row, right_taus=row)
    arguments |= dict(scales=Out((number,), dtype), room=room, size=n)
    made = run.launch(REDUCE, (dtype,), (), arguments, (number,), (threads,))
    names = ("work", "lefts", "diagonal", "off", "left_taus", "right_taus", "scales")
    arguments = dict(zip(names, made, strict=False))  # all but the room
    del made
    shares = strip_groups(chosen["groups"], strips, number) if has_vectors else 1
    strip = Out((number, strips, n, LANES) if has_vectors else (0,), dtype)
    arguments |= dict(left_strips=strip, right_strips=strip, room=Out((number, shares, 6, n), dtype))
    arguments |= dict(values=Out(batch.shape(n), dtype), signs=row, orders=Out((number, n), "int32"))
    arguments |= dict(info=Out(batch.leading, "int32"), size=n, with_vectors=has_vectors)
    lefts, rights, _, values, signs, orders, info = run.launch(
        ITERATE, (dtype,), (), arguments, (shares, number), (LANES,)
    )
    del arguments
    if not has_vectors:
        return lefts, values, rights, info

    def ordered(strips: Any, is_signed: bool) -> Any:
        given = dict(
            strips=strips, orders=orders, signs=signs, out=Out(batch.shape(n, n), dtype), size=n, is_signed=is_signed
        )
        return run.launch(VECTORS, (dtype,), (), given, (n, number), (LANES,))[0]

    left = ordered(lefts, True)
    del lefts
    return left, values, ordered(rights, False), info
