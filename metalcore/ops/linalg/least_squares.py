"""What singular values tell: pseudoinverse, least squares, rank, condition. kernels/linalg/svd_solve.metal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metalcore.ops.base.check import check_array, dtype_name, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import THREADS, Batch, check_matrix, check_square, promoted, thread_groups
from metalcore.ops.linalg.base.product import Block, matmul, update
from metalcore.ops.linalg.base.result import named
from metalcore.ops.linalg.base.singular import Decomposition, check, decompose, scaled_rows
from metalcore.ops.linalg.base.triangular import triangle
from metalcore.ops.linalg.inverse import inv_ex
from metalcore.ops.linalg.norm import matrix_norm, vector_norm
from metalcore.ops.linalg.svd import svdvals
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

__all__ = ["cond", "lstsq", "matrix_rank", "pinv"]
INVERTED = Kernel("linalg/svd_solve", "svd_inverted")
RANK = Kernel("linalg/svd_solve", "svd_rank")
RESIDUAL = Kernel("linalg/svd_solve", "svd_residual")
DIFFERENCE = Kernel("linalg/svd_solve", "svd_difference")
PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
DRIVERS = ("gelsy", "gels", "gelsd", "gelss")
NORMS = (None, 1, -1, 2, -2, math.inf, -math.inf, "fro", "nuc")


def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudoinverse. Singular values up to max(atol, rtol * the largest) count as zero.

    `rtol` is max(m, n) * the precision of the dtype where neither is given, 0 where `atol` is. `hermitian` says that A
    is symmetric: its lower triangle is read.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]], np.float32))
    array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    (check_square if hermitian else check_matrix)("linalg.pinv", "A", A)
    return PINV(A, *_tolerances("linalg.pinv", A, atol, rtol), bool(hermitian))


def matrix_rank(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """How many singular values are above max(atol, rtol * the largest); the defaults are those of `pinv`.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.matrix_rank(np.ones((3, 3), np.float32))
    array(1)
    """
    (check_square if hermitian else check_matrix)("linalg.matrix_rank", "A", A)
    A = A.detach() if hasattr(A, "detach") else A  # a whole number has no gradient
    return MATRIX_RANK(A, *_tolerances("linalg.matrix_rank", A, atol, rtol), bool(hermitian))


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values): the X with the least |A X - B|, and of these the smallest one.

    Every `driver` is done by a singular value decomposition; they differ in what is returned, as torch's do: residuals
    of systems with more equations than unknowns and full rank, but for "gelsy" (the default); the rank but for "gels";
    singular values for "gelsd" and "gelss". What is not returned has no elements; under torch.compile and torch.vmap,
    which do not look at the rank, residuals are returned whatever it is. Singular values up to `rcond` times
    the largest count as zero.

    >>> import numpy as np, metalcore
    >>> A, B = np.array([[1.0], [1.0]], np.float32), np.array([[1.0], [3.0]], np.float32)
    >>> metalcore.linalg.lstsq(A, B).solution.round(5)
    array([[2.]], dtype=float32)
    """
    op = "linalg.lstsq"
    dtype = check_matrix(op, "A", A)
    if driver is not None and driver not in DRIVERS:
        refuse(op, "driver", f"None or one of {DRIVERS}", repr(driver))
    if (given := check_array(op, "B", B)) != dtype:
        refuse(op, "B", f"of A's dtype, {dtype}", f"of dtype {given}")
    is_vector = len(B.shape) == 1 or tuple(B.shape) == tuple(A.shape[:-1])
    b = B[..., None] if is_vector else B
    if len(b.shape) < 2 or b.shape[-2] != A.shape[-2]:
        refuse(op, "B", f"with {A.shape[-2]} rows, as A has", f"of shape {tuple(B.shape)}")
    a, b = broadcast(op, A, b)
    few = PRECISION[dtype] * max(A.shape[-2:])
    solution, residuals, rank, values = LSTSQ(a, b, few if rcond is None else float(rcond))
    driver = driver or "gelsy"
    is_more = A.shape[-2] > A.shape[-1] and driver != "gelsy"
    has_residuals = is_more and (driver == "gels" or _has_full_rank(rank, A.shape[-1]))
    solution = solution[..., 0] if is_vector else solution
    residuals = residuals if has_residuals else _nothing(residuals)
    rank = rank if driver != "gels" else _nothing(rank)
    values = values if driver in ("gelsd", "gelss") else _nothing(values)
    return named("linalg_lstsq", "solution residuals rank singular_values", (solution, residuals, rank, values))


def _nothing(array: Any) -> Any:
    """No elements, of this array's dtype."""
    return array.reshape((math.prod(array.shape),))[:0]


def _has_full_rank(rank: Any, columns: int) -> bool:
    """Of all matrices. Where torch traces there are no numbers to look at, and the rank is taken to be full."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(rank, torch.Tensor):
        if torch.compiler.is_compiling():
            return True
        from metalcore.arrays.torch_private import unwrapped

        rank = unwrapped(rank)
        if rank is None:
            return True
    return not (rank < columns).any()


def cond(A: Any, p: Any = None) -> Any:
    """The condition number |A| |A^-1| in the norm `p`: None, 2 and -2 are quotients of singular values and take any
    shape; 1, -1, inf, -inf, "fro" and "nuc" take square matrices, and give inf where there is no inverse.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.cond(np.diag(np.array([4.0, 2.0], np.float32)))
    array(2., dtype=float32)
    """
    op = "linalg.cond"
    if p not in NORMS:
        refuse(op, "p", "None, 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'", repr(p))
    (check_square if p in ("fro", "nuc") else check_matrix)(op, "A", A)
    if 0 in A.shape:
        return vector_norm(svdvals(A), 1, -1)  # 0, as torch has it
    if p in (None, 2, -2):
        values = svdvals(A)
        largest, smallest = values[..., :1], values[..., -1:]
        quotient = _quietly(values, lambda: smallest / largest if p == -2 else largest / smallest)
        return quotient.reshape(tuple(A.shape[:-2]))
    check_square(op, "A", A)
    if p == "nuc":
        values = svdvals(A)
        return _quietly(values, lambda: vector_norm(values, 1, -1) * vector_norm(1 / values, 1, -1))
    inverse, info = inv_ex(A)
    return _infinite_where(info != 0, matrix_norm(A, p) * matrix_norm(inverse, p))


def _quietly(values: Any, call: Callable[[], Any]) -> Any:
    """The infinite condition of a singular matrix is nothing that NumPy should warn of."""
    if isinstance(values, np.ndarray):
        with np.errstate(divide="ignore", invalid="ignore"):
            return call()
    return call()


def _infinite_where(mask: Any, values: Any) -> Any:
    if hasattr(values, "masked_fill"):
        return values.masked_fill(mask, math.inf)
    mlx = sys.modules.get("mlx.core")
    if mlx is not None and isinstance(values, mlx.array):
        return mlx.where(mask, math.inf, values)
    return np.where(mask, values.dtype.type(math.inf), values)


def _tolerances(op: str, A: Any, atol: Any, rtol: Any) -> tuple[float, float]:
    numbers: list[float | None] = []
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is None:
            numbers.append(None)
            continue
        try:
            numbers.append(float(value))
        except (TypeError, ValueError, RuntimeError):
            refuse(op, name, "a number", repr(value))
    absolute, relative = numbers
    if relative is None:
        relative = 0.0 if absolute is not None and absolute > 0 else PRECISION[dtype_name(A)] * max(A.shape[-2:])
    return absolute or 0.0, relative


def _inverted(run: Runtime, rows: Any, values: Any, atol: float, rtol: float) -> Any:
    """Row i over singular value i, or zero."""
    batch, dtype = Batch.of(rows), run.dtype(rows)
    count = batch.number * batch.rows * batch.columns
    arguments = dict(a=rows, values=values, out=Out(tuple(rows.shape), dtype))
    arguments |= dict(count=count, size=batch.rows, columns=batch.columns, atol=atol, rtol=rtol)
    (found,) = run.launch(INVERTED, (dtype,), (), arguments, thread_groups(count), (THREADS,))
    return found


def _rank(run: Runtime, values: Any, leading: tuple[int, ...], atol: float, rtol: float) -> Any:
    number = math.prod(leading)
    arguments = dict(
        values=values, ranks=Out(leading, "int64"), count=number, size=values.shape[-1], atol=atol, rtol=rtol
    )
    (found,) = run.launch(RANK, (run.dtype(values),), (), arguments, thread_groups(number), (THREADS,))
    return found


def _u_rows(found: Decomposition) -> Any:
    """The columns of U as rows."""
    return found.left if found.is_tall else found.right


def _pinv(run: Runtime, work: Any, atol: float, rtol: float) -> Any:
    found = decompose(run, work)
    check(run, found.info, len(work.shape) > 2)
    return matmul(run, _inverted(run, found.vh, found.values, atol, rtol), _u_rows(found), transpose_a=True)


def _as_read(run: Runtime, A: Any, hermitian: bool) -> Any:
    """A, or the symmetric matrix that its lower triangle stands for."""
    work = promoted(run, A)
    return triangle(run, work, upper=False, mirrored=True) if hermitian else work


@stage("(Tensor A, float atol, float rtol, bool hermitian) -> Tensor inverse")
def forward_pinv(run: Runtime, A: Any, atol: float, rtol: float, hermitian: bool) -> tuple[Any, ...]:
    return (run.cast(_pinv(run, _as_read(run, A, hermitian), atol, rtol), run.dtype(A)),)


@stage("(Tensor A, float atol, float rtol, bool hermitian) -> Tensor rank")
def forward_rank(run: Runtime, A: Any, atol: float, rtol: float, hermitian: bool) -> tuple[Any, ...]:
    found = decompose(run, _as_read(run, A, hermitian), has_vectors=False)
    check(run, found.info, len(A.shape) > 2)
    return (_rank(run, found.values, tuple(A.shape[:-2]), atol, rtol),)


@stage("(Tensor A, Tensor B, float rcond) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor values)")
def forward_lstsq(run: Runtime, A: Any, B: Any, rcond: float) -> tuple[Any, ...]:
    a, b = promoted(run, A), promoted(run, B)
    found = decompose(run, a)
    check(run, found.info, len(A.shape) > 2)
    scaled = _inverted(run, matmul(run, _u_rows(found), b), found.values, 0.0, rcond)
    solution = matmul(run, found.vh, scaled, transpose_a=True)
    batch = Batch.of(b)
    count = batch.number * batch.columns
    arguments = dict(a=matmul(run, a, solution), b=b, out=Out(batch.shape(batch.columns), run.dtype(b)), count=count)
    sizes = dict(rows=batch.rows, columns=batch.columns)
    (residuals,) = run.launch(
        RESIDUAL, (run.dtype(b),), (), dict(**arguments, **sizes), thread_groups(count), (THREADS,)
    )
    rank, given = _rank(run, found.values, batch.leading, 0.0, rcond), run.dtype(A)
    return run.cast(solution, given), run.cast(residuals, given), rank, run.cast(found.values, given)


@stage("(Tensor grad_inverse, Tensor inverse, Tensor A, bool hermitian) -> Tensor dA")
def backward_pinv(run: Runtime, grad_inverse: Any, inverse: Any, A: Any, hermitian: bool) -> tuple[Any, ...]:
    """That of `hermitian` is not put into the lower triangle, as torch's is not."""
    found = _pinv_gradient(run, promoted(run, grad_inverse), promoted(run, inverse), _as_read(run, A, hermitian))
    return (run.cast(found, run.dtype(A)),)


def _pinv_gradient(run: Runtime, grad: Any, inverse: Any, a: Any) -> Any:
    """With P the pseudoinverse and G its gradient: P^T P (G^T - K A) + K P^T - A P K P^T - K^T P^T, K = G^T P."""

    def product(x: Any, y: Any, **flags: bool) -> Any:
        return matmul(run, x, y, **flags)

    def added(x: Any, y: Any, z: Any, alpha: float, **flags: bool) -> Any:
        return update(run, Block.of(x), Block.of(y), Block.of(z), alpha=alpha, **flags)

    turned = run.contiguous(grad.swapaxes(-1, -2))
    k = product(turned, inverse)
    outer = product(k, inverse, transpose_b=True)
    rest = _difference(run, turned, product(k, a))
    found = product(product(inverse, inverse, transpose_a=True), rest)
    found = added(found, k, inverse, 1.0, transpose_b=True)
    found = added(found, product(a, inverse), outer, -1.0)
    return added(found, k, inverse, -1.0, transpose_a=True, transpose_b=True)


def _difference(run: Runtime, a: Any, b: Any) -> Any:
    dtype, count = run.dtype(a), math.prod(a.shape)
    arguments = dict(a=a, b=b, out=Out(tuple(a.shape), dtype), count=count)
    (found,) = run.launch(DIFFERENCE, (dtype,), (), arguments, thread_groups(count), (THREADS,))
    return found


@stage(
    "(Tensor grad_solution, Tensor grad_residuals, Tensor A, Tensor B, float rcond, bool[] wanted)"
    " -> (Tensor dA, Tensor dB)"
)
def backward_lstsq(
    run: Runtime, grad_solution: Any, grad_residuals: Any, A: Any, B: Any, rcond: float, wanted: Sequence[bool]
) -> tuple[Any, ...]:
    """The solution X is that of the pseudoinverse. Residuals are the squares of the columns of R = A X - B, and R is
    orthogonal to A: with g their gradients on a diagonal, dA = 2 R g X^T and dB = -2 R g."""
    a, b, grad = promoted(run, A), promoted(run, B), promoted(run, grad_solution)
    inverse, given = _pinv(run, a, 0.0, rcond), run.dtype(A)
    x = matmul(run, inverse, b)
    rest = run.contiguous(_difference(run, matmul(run, a, x), b).swapaxes(-1, -2))
    rest = scaled_rows(run, rest, promoted(run, grad_residuals))  # g R^T
    to_a = to_b = run.empty((0,), given)
    if wanted[0]:
        to_a = _pinv_gradient(run, matmul(run, grad, b, transpose_b=True), inverse, a)
        to_a = update(run, Block.of(to_a), Block.of(rest), Block.of(x), alpha=2.0, transpose_a=True, transpose_b=True)
    if wanted[1]:
        twice = _difference(run, _difference(run, matmul(run, grad, inverse, transpose_a=True), rest), rest)
        to_b = run.contiguous(twice.swapaxes(-1, -2))
    return run.cast(to_a, given), run.cast(to_b, given)


PINV = Op("linalg_pinv", "the pseudoinverse", forward_pinv, backward_pinv, namesake="torch.linalg.pinv")
MATRIX_RANK = Op(
    "linalg_matrix_rank",
    "the number of singular values that are not zero",
    forward_rank,
    namesake="torch.linalg.matrix_rank",
)
LSTSQ = Op(
    "linalg_lstsq",
    "the least squares solution",
    forward_lstsq,
    backward_lstsq,
    no_gradient=("rank", "values"),
    namesake="torch.linalg.lstsq",
)
OPS = (PINV, MATRIX_RANK, LSTSQ)
