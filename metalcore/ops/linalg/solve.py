"""Systems with a square matrix: kernels/linalg/solve.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_array, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base import lu
from metalcore.ops.linalg.base.matrix import check_matrix, check_square, promoted
from metalcore.ops.linalg.base.product import matmul
from metalcore.ops.linalg.base.result import batch_element, named
from metalcore.ops.linalg.lu import lu_factor_ex
from metalcore.runtimes.runtime import Runtime

__all__ = ["solve", "solve_ex"]


def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X of A X = B, or of X A = B where not `left`. B is a matrix, a vector, or a batch of either: vectors where it has
    one dimension, or where its shape is that of A without the last dimension. A singular A is an error.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.solve(np.array([[1.0, 2.0], [4.0, 4.0]], np.float32), np.array([5.0, 12.0], np.float32))
    array([1., 2.], dtype=float32)
    """
    A, B, is_vector = _checked("linalg.solve", A, B, left)
    x = SOLVE(A, B, bool(left))
    return x.reshape(x.shape[:-1]) if is_vector else x


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info): no error is raised; `info` is the number of the first pivot that is zero, or 0."""
    given = A
    A, B, is_vector = _checked("linalg.solve_ex", A, B, left)
    leading = tuple(given.shape[:-2])
    x, info = SOLVE_EX(A, B, bool(left), bool(check_errors))
    if tuple(info.shape) != leading:
        info = lu_factor_ex(given).info if 0 in info.shape else _narrowed(info, leading)
    return named("linalg_solve_ex", "result info", (x.reshape(x.shape[:-1]) if is_vector else x, info))


def _checked(op: str, A: Any, B: Any, left: bool) -> tuple[Any, Any, bool]:
    """A and B with leading dimensions that fit, and whether B is a batch of vectors; they are columns then."""
    dtype = check_square(op, "A", A)
    if (given := check_array(op, "B", B)) != dtype:
        refuse(op, "B", f"of A's dtype, {dtype}", f"of dtype {given}")
    shape = tuple(B.shape)
    is_vector = len(shape) == 1 or (len(shape) == len(A.shape) - 1 and shape == tuple(A.shape[:-1]))
    if is_vector:
        B = B.reshape((*shape, 1))
    check_matrix(op, "B", B)
    n, size = A.shape[-1], B.shape[-2 if left else -1]
    if n != size:
        equation = "A X = B" if left else "X A = B"
        rows, columns = tuple(B.shape[-2:])
        refuse(op, "B", f"of a shape that goes with A in {equation}", f"of shape {shape}: {n}x{n} and {rows}x{columns}")
    A, B = lu.batches(op, A, B)
    return A, B, is_vector


def _narrowed(info: Any, leading: tuple[int, ...]) -> Any:
    """One of those that come from the same matrix: A was repeated for the leading dimensions of B."""
    info = info[(0,) * (len(info.shape) - len(leading))]
    return info[tuple(slice(0, size) for size in leading)]


def _explain(op: str, is_batch: bool) -> Any:
    return lambda at, _: (
        f"{batch_element(f'torch.linalg.{op}', at, is_batch)}The solver failed because the input matrix is singular."
    )


@stage("(Tensor A, Tensor B, bool left, bool check_errors) -> (Tensor result, Tensor info)")
def forward_ex(run: Runtime, A: Any, B: Any, left: bool, check_errors: bool) -> tuple[Any, ...]:
    x, info = _solved(run, promoted(run, A), promoted(run, B), left, False)
    if check_errors:
        run.check_info(info, _explain("solve_ex", len(A.shape) > 2))
    return run.cast(x, run.dtype(B)), info


@stage("(Tensor A, Tensor B, bool left) -> Tensor result")
def forward(run: Runtime, A: Any, B: Any, left: bool) -> tuple[Any, ...]:
    x, info = _solved(run, promoted(run, A), promoted(run, B), left, False)
    run.check_info(info, _explain("solve", len(A.shape) > 2))
    return (run.cast(x, run.dtype(B)),)


def _solved(run: Runtime, a: Any, b: Any, left: bool, transposed: bool) -> tuple[Any, Any]:
    """X of op(a) X = b or X op(a) = b, where op transposes or not."""
    if left:
        return lu.solve(run, a, b, transposed)
    x, info = lu.solve(run, a, lu.transposed_copy(run, b), not transposed)
    return lu.transposed_copy(run, x), info


@stage("(Tensor grad_result, Tensor A, Tensor result, bool left, bool[] wanted) -> (Tensor dA, Tensor dB)")
def backward(
    run: Runtime, grad_result: Any, A: Any, result: Any, left: bool, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """dB = A^-T dX and dA = -dB X^T; where X A = B was solved, dB = dX A^-T and dA = -X^T dB."""
    a, x, grad, dtype = promoted(run, A), promoted(run, result), promoted(run, grad_result), run.dtype(A)
    db, _ = _solved(run, a, grad, left, True)
    if not wanted[0]:
        return run.empty((0,), dtype), run.cast(db, dtype)
    first, second = (db, x) if left else (x, db)
    da = matmul(run, first, second, transpose_a=not left, transpose_b=left, alpha=-1.0)
    return run.cast(lu.summed(run, da, A), dtype), run.cast(db, dtype)


SOLVE = Op("linalg_solve", "A X = B", forward, backward, namesake="torch.linalg.solve")
SOLVE_EX = Op(
    "linalg_solve_ex", "A X = B, with info in place of an error", forward_ex, backward, namesake="torch.linalg.solve_ex"
)
OPS = (SOLVE, SOLVE_EX)
