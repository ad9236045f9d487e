"""Products of matrices: kernels/linalg/matmul.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.ops.base.check import check_array, check_float, dtype_name, refuse
from metalcore.ops.base.op import Benchmark, Op, stage
from metalcore.ops.linalg.base import product
from metalcore.ops.linalg.base.batches import broadcast
from metalcore.ops.linalg.base.matrix import promoted
from metalcore.runtimes.runtime import Runtime

__all__ = ["matmul"]


def matmul(input: Any, other: Any) -> Any:
    """The matrix product of two arrays, as torch.linalg.matmul: batches of matrices broadcast, vectors have no batch.

    >>> import numpy as np, metalcore
    >>> metalcore.linalg.matmul(np.array([[1.0, 2.0]], np.float32), np.array([3.0, 4.0], np.float32))
    array([11.], dtype=float32)
    """
    op = "linalg.matmul"
    for name, array in (("input", input), ("other", other)):
        if (dtype := check_array(op, name, array)).startswith("complex"):
            refuse(op, name, "real: complex matrices are not supported", f"of dtype {dtype}")
        check_float(op, name, array)
        if len(array.shape) == 0:
            refuse(op, name, "a vector, a matrix or a batch of matrices", "a scalar")
    if dtype_name(input) != dtype_name(other):
        refuse(op, "other", f"of input's dtype, {dtype_name(input)}", f"of dtype {dtype_name(other)}")
    a = input.reshape(1, input.shape[0]) if len(input.shape) == 1 else input
    b = other.reshape(other.shape[0], 1) if len(other.shape) == 1 else other
    if a.shape[-1] != b.shape[-2]:
        shown = f"of shape {tuple(other.shape)}"
        refuse(op, "other", f"of {a.shape[-1]} rows, as input of shape {tuple(input.shape)} has columns", shown)
    if len(a.shape) > 2 and len(b.shape) > 2:
        a, b = broadcast(op, a, b)
    found = MATMUL(a, b)
    leading = tuple(found.shape[:-2])
    if len(input.shape) > 1 and len(other.shape) > 1:
        return found
    last = tuple(s for s, array in zip(found.shape[-2:], (input, other), strict=True) if len(array.shape) > 1)
    return found.reshape((*leading, *last))


@stage("(Tensor input, Tensor other) -> Tensor y")
def forward(run: Runtime, input: Any, other: Any) -> tuple[Any, ...]:
    found = product.matmul(run, promoted(run, input), promoted(run, other))
    return (run.cast(found, run.dtype(input)),)


@stage("(Tensor grad_y, Tensor input, Tensor other, bool[] wanted) -> (Tensor dinput, Tensor dother)")
def backward(run: Runtime, grad_y: Any, input: Any, other: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    """dA = dY B^T, dB = A^T dY; that of a single matrix beside a batch is the sum over the batch."""
    dtype = run.dtype(input)
    g, a, b = promoted(run, grad_y), promoted(run, input), promoted(run, other)
    da = db = run.empty((0,), dtype)
    if wanted[0]:
        left, right = (g, b) if len(a.shape) >= len(b.shape) else (_side_by_side(run, g), _side_by_side(run, b))
        da = run.cast(product.matmul(run, left, right, transpose_b=True), dtype)
    if wanted[1]:
        left, right = (a, g) if len(b.shape) >= len(a.shape) else (_stacked(a), _stacked(g))
        db = run.cast(product.matmul(run, left, right, transpose_a=True), dtype)
    return da, db


def _stacked(batch: Any) -> Any:
    """The matrices of a batch one below the other."""
    return batch.reshape(-1, batch.shape[-1]) if batch.shape[-1] else batch.reshape(_number(batch), 0)


def _number(batch: Any) -> int:
    rows = 1
    for size in batch.shape[:-1]:
        rows *= size
    return rows


def _side_by_side(run: Runtime, batch: Any) -> Any:
    """The matrices of a batch beside each other."""
    rows, columns = batch.shape[-2:]
    number = _number(batch) // rows if rows else 0
    return run.contiguous(batch.reshape(number, rows, columns).swapaxes(0, 1)).reshape(rows, number * columns)


def _make(batch: int, n: int) -> Any:
    def make(torch: Any, dtype: Any) -> Any:
        shape = (batch, n, n) if batch > 1 else (n, n)
        return (torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)), {}

    return make


MATMUL = Op(
    "linalg_matmul",
    "the matrix product",
    forward,
    backward,
    namesake="torch.linalg.matmul",
    benchmarks=[
        Benchmark("1024x1024", _make(1, 1024), 1 << 20, dtypes=("float32",), targets={"*": 0.3}),
        Benchmark("1000x32x32", _make(1000, 32), 1024000, dtypes=("float32",)),
    ],
)
OPS = (MATMUL,)
