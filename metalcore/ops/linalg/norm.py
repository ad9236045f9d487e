"""Norms: kernels/linalg/norm.metal. Those of matrices are put together from norms of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.linalg.base.arrange import Reduced, check_dims, several, to_the_end
from metalcore.ops.linalg.svd import svdvals
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

__all__ = ["matrix_norm", "norm", "vector_norm"]
ROWS = Kernel("linalg/norm", "vector_norm_rows")
COLUMNS = Kernel("linalg/norm", "vector_norm_columns")
ROWS_BACKWARD = Kernel("linalg/norm", "vector_norm_rows_backward")
COLUMNS_BACKWARD = Kernel("linalg/norm", "vector_norm_columns_backward")
COUNT, SUM = 0, 1
KINDS = {0.0: COUNT, 1.0: SUM, 2.0: 2, math.inf: 3, -math.inf: 4}  # as the kernels count them
POWER = 5
WIDER = {
    "float16": ("float16", "float32", "float64"),
    "bfloat16": ("bfloat16", "float32", "float64"),
    "float32": ("float32", "float64"),
    "float64": ("float64",),
}


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of vectors or matrices, by `ord` and `dim`: without `ord` that of all elements as one vector.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.norm(np.array([3.0, 4.0], np.float32))
    array(5., dtype=float32)
    """
    op = "linalg.norm"
    check_float(op, "A", A)
    dims = None if dim is None else several(op, dim)
    if dims is not None and len(dims) not in (1, 2):
        refuse(op, "dim", "of length 1 or 2", repr(dim))
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None:
        if len(A.shape) not in (1, 2):
            refuse(op, "A", "of 1 or 2 dimensions where ord is given and dim is not", f"of shape {tuple(A.shape)}")
        dims = tuple(range(len(A.shape)))
    if len(dims) == 2 or isinstance(ord, str):
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """(sum |x|^ord)^(1 / ord) along `dim`, or of all elements; ord may be inf, -inf or 0 (how many are not 0).

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.vector_norm(np.array([[3e30, 4e30], [1.0, 0.0]], np.float32), dim=1)
    array([5.e+30, 1.e+00], dtype=float32)
    """
    op = "linalg.vector_norm"
    check_float(op, "x", x)
    if isinstance(ord, (str, bool)) or not isinstance(ord, (int, float, np.number)):
        refuse(op, "ord", "a number", repr(ord))
    dims = check_dims(op, dim, len(x.shape))
    if ord < 0 or ord == math.inf:
        empty = [d for d in dims if x.shape[d] == 0]
        if empty:
            refuse(op, "x", f"without a dimension of no elements for the {ord} norm", f"of shape {tuple(x.shape)}")
    return VECTOR_NORM(_wider(op, x, dtype), float(ord), dims, bool(keepdim))


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of matrices in two dimensions: "fro", "nuc" (sum of the singular values), 1 and -1 (largest and least
    sum of a column), inf and -inf (of a row), 2 and -2 (largest and least singular value).

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.matrix_norm(np.array([[1.0, -2.0], [3.0, 4.0]], np.float32), 1)
    array(6., dtype=float32)
    """
    op = "linalg.matrix_norm"
    check_float(op, "A", A)
    if len(A.shape) < 2:
        refuse(op, "A", "of at least 2 dimensions", f"of shape {tuple(A.shape)}")
    if dim is None or len(pair := several(op, dim)) != 2:
        refuse(op, "dim", "two dimensions", repr(dim))
    rows, columns = (check_dims(op, d, len(A.shape))[0] for d in pair)
    if rows == columns:
        refuse(op, "dim", "two different dimensions", repr(dim))
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        refuse(op, "ord", "'fro', 'nuc', 1, -1, 2, -2, inf or -inf", repr(ord))
    A = _wider(op, A, dtype)
    least_of = {-1: (columns,), -math.inf: (rows,), -2: (rows, columns)}.get(ord, ())
    if any(A.shape[d] == 0 for d in least_of):
        refuse(op, "A", f"not empty for the {ord} norm", f"of shape {tuple(A.shape)}")
    if ord == "fro" or 0 in (A.shape[rows], A.shape[columns]):
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        return _of_singular_values(A, ord, (rows, columns), keepdim)
    along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(A, 1, along, True)  # not negative: their largest is their norm of inf
    return vector_norm(sums, math.inf if ord > 0 else -math.inf, (along, across), keepdim)


def _of_singular_values(A: Any, ord: Any, dims: tuple[int, int], keepdim: bool) -> Any:
    values = svdvals(to_the_end(A, dims))
    found = vector_norm(values, {"nuc": 1, 2: math.inf, -2: -math.inf}[ord], -1)
    if not keepdim:
        return found
    return found.reshape(tuple(1 if i in dims else size for i, size in enumerate(A.shape)))


def _wider(op: str, array: Any, dtype: Any) -> Any:
    """The array in the dtype that the caller asks for, which must hold all its values."""
    if dtype is None:
        return array
    given, asked = dtype_name(array), str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]
    if asked not in WIDER[given]:
        refuse(op, "dtype", f"one of {', '.join(WIDER[given])} for an array of {given}", asked)
    return array if asked == given else array.to(dtype) if hasattr(array, "to") else array.astype(dtype)


@stage("(Tensor x, float ord, int[] dim, bool keepdim) -> Tensor norm")
def forward(run: Runtime, x: Any, ord: float, dim: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    dtype, shape = run.dtype(x), tuple(x.shape)
    seen = Reduced.of(run, x, dim)
    if keepdim:
        result = tuple(1 if i in dim else size for i, size in enumerate(shape))
    else:
        result = tuple(size for i, size in enumerate(shape) if i not in dim)
    chosen = policy("linalg_norm", run.family, dtype)
    kind, wide = KINDS.get(ord, POWER), accumulator(dtype)
    number, power = (ord, kind) if kind == POWER else (0.0, kind)
    blocks = max(1, -(-seen.width // chosen["block"]))
    array = seen.array
    if blocks > 1:
        parts = Out((seen.outer, blocks, seen.inner), wide)
        array = _launch(run, (dtype, wide), power, (array, parts), seen, seen.width, chosen["block"], number)
        power, dtype = (SUM, wide) if kind == COUNT else (power, wide)
    width = blocks if blocks > 1 else seen.width
    types = (dtype, run.dtype(x))
    return (_launch(run, types, power, (array, Out(result, run.dtype(x))), seen, width, width, number),)


def _launch(
    run: Runtime,
    types: tuple[str, str],
    kind: int,
    arrays: tuple[Any, Out],
    seen: Reduced,
    width: int,
    each: int,
    p: float,
) -> Any:
    """One pass over (outer, width, inner): a norm for each block of `each`."""
    threads, blocks = policy("linalg_norm", run.family, types[0])["threads"], max(1, -(-width // max(1, each)))
    arguments = dict(x=arrays[0], norms=arrays[1], width=width, each=each, p=p, which=kind)
    if seen.inner == 1:
        groups: tuple[int, ...] = (seen.outer, blocks)
        (found,) = run.launch(ROWS, types, (), arguments, groups, (threads, 1))
    else:
        groups = (-(-seen.inner // threads), blocks, seen.outer)
        arguments["inner"] = seen.inner
        (found,) = run.launch(COLUMNS, types, (), arguments, groups, (threads, 1, 1))
    return found


@stage("(Tensor grad_norm, Tensor x, Tensor norm, float ord, int[] dim, bool keepdim) -> Tensor dx")
def backward(
    run: Runtime, grad_norm: Any, x: Any, norm: Any, ord: float, dim: Sequence[int], keepdim: bool
) -> tuple[Any, ...]:
    dtype = run.dtype(x)
    seen = Reduced.of(run, x, dim)
    kind = KINDS.get(ord, POWER)
    number = ord if kind == POWER else 0.0
    threads = policy("linalg_norm", run.family, dtype)["threads"]
    out = Out(tuple(seen.array.shape), dtype)
    arrays = dict(x=seen.array, norms=run.contiguous(norm), grads=run.contiguous(grad_norm), dx=out)
    if seen.inner == 1:
        arguments = dict(**arrays, width=seen.width, p=number, which=kind)
        (dx,) = run.launch(ROWS_BACKWARD, (dtype,), (), arguments, (seen.outer,), (threads,))
    else:
        arguments = dict(**arrays, width=seen.width, inner=seen.inner, p=number, which=kind)
        groups = (-(-seen.inner // threads), seen.outer)
        (dx,) = run.launch(COLUMNS_BACKWARD, (dtype,), (), arguments, groups, (threads, 1))
    return (seen.restored(dx),)


def _make(torch: Any, dtype: Any) -> Any:
    return (torch.randn(4096, 2048, dtype=dtype), 2, -1), {}


VECTOR_NORM = Op(
    "linalg_vector_norm",
    "(sum |x|^p)^(1/p) along dimensions",
    forward,
    backward,
    namesake="torch.linalg.vector_norm",
    benchmarks=[Benchmark("4096x2048", _make, 4096 * 2048)],
)
OPS = (VECTOR_NORM,)
