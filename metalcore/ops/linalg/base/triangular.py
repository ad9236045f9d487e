"""Systems with a triangular matrix: kernels/linalg/triangular.metal."""

from __future__ import annotations

import math
from typing import Any

from metalcore.ops.linalg.base.matrix import LANES
from metalcore.ops.linalg.base.product import Block, update
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

BLOCK = Kernel(
    "linalg/triangular", "solve_triangular_block", ("is_upper", "is_transposed", "is_unit", "is_right", "copies")
)
VECTOR = Kernel(
    "linalg/triangular", "solve_triangular_vector", ("is_upper", "is_transposed", "is_unit", "is_right", "copies")
)
TRIANGLE = Kernel("linalg/triangular", "take_triangle", ("is_upper", "is_mirrored", "has_diagonal"))
BLOCK_ROWS = 64  # BLOCK in the kernel
VECTOR_ROWS = 2048  # LONG in the kernel


def solve_triangular(
    run: Runtime, a: Any, b: Any, *, upper: bool, transpose: bool = False, left: bool = True, unit: bool = False
) -> Any:
    """X of op(a) X = b, or of X op(a) = b where not `left`; a and b are contiguous float32 (or float64) arrays with the
    same leading dimensions, or `a` is a single matrix. Only the upper or lower triangle of `a` is read; with `unit` its
    diagonal is 1."""
    dtype, n = run.dtype(a), a.shape[-1]
    sides = b.shape[-1] if left else b.shape[-2]
    shape, number = tuple(b.shape), math.prod(b.shape[:-2])
    if n == 0 or sides == 0 or number == 0:
        return run.empty(shape, dtype)
    chosen = policy("linalg_triangular", run.family, dtype)
    stride = n * n if len(a.shape) > 2 else 0
    if chosen["vector_from"] <= n <= VECTOR_ROWS and sides <= chosen["vector_sides"]:
        arguments = dict(a=a, b=b, x=Out(shape, dtype), size=n, sides=sides, a_stride=stride)
        flags = (upper, transpose == left, unit, not left, False)
        (x,) = run.launch(VECTOR, (dtype,), flags, arguments, (sides, number), (LANES,))
        return x
    starts = range(0, n, BLOCK_ROWS)
    is_forward = upper == (transpose == left)
    x = b
    for start in starts if is_forward else reversed(starts):
        size = min(BLOCK_ROWS, n - start)
        part = Block(x, start, 0, size, sides) if left else Block(x, 0, start, sides, size)
        block, how = Block(a, start, start, size, size), dict(upper=upper, transpose=transpose, left=left, unit=unit)
        x = solve_block(run, block, part, **how, in_place=x is not b)
        rest = (start + size, n) if is_forward else (0, start)
        if rest[0] < rest[1]:
            x = _update(run, a, x, (start, start + size), rest, transpose, left)
    return x


def solve_block(
    run: Runtime, a: Block, b: Block, *, upper: bool, transpose: bool, left: bool, unit: bool, in_place: bool = True
) -> Any:
    """The array of `b` with the solution in place of the block: op(a) X = b with at most BLOCK_ROWS unknowns. It is
    changed in place where that is allowed and the runtime can, else it is a new array."""
    dtype, (rows, columns) = run.dtype(a.array), b.array.shape[-2:]
    sides = b.columns if left else b.rows
    copies = not (in_place and run.writes_in_place)
    shape = tuple(b.array.shape)
    arguments = dict(a=a.array, b=b.array, x=Out(shape, dtype) if copies else b.array, size=a.rows)
    arguments |= dict(sides=sides, **a.place("a"), row=b.row, column=b.column, b_pitch=columns, b_rows=rows)
    groups = (-(-sides // LANES), math.prod(shape[:-2]))
    is_part = (b.rows, b.columns) != (rows, columns)
    flags = (upper, transpose == left, unit, not left, copies and is_part)
    made = run.launch(BLOCK, (dtype,), flags, arguments, groups, (LANES,))
    return made[0] if made else b.array


def _update(
    run: Runtime, a: Any, x: Any, solved: tuple[int, int], rest: tuple[int, int], transpose: bool, left: bool
) -> Any:
    """Takes what is solved away from the right-hand sides that are not."""
    (begin, end), (low, high) = solved, rest
    size, count = end - begin, high - low
    # op(a) at rows `rest` and columns `solved` where it stands left of x, else the other way round
    is_below = transpose != left
    block = Block(a, low, begin, count, size) if is_below else Block(a, begin, low, size, count)
    if left:
        columns = x.shape[-1]
        known, unknown = Block(x, begin, 0, size, columns), Block(x, low, 0, count, columns)
        return update(run, unknown, block, known, alpha=-1.0, transpose_a=transpose)
    rows = x.shape[-2]
    known, unknown = Block(x, 0, begin, rows, size), Block(x, 0, low, rows, count)
    return update(run, unknown, known, block, alpha=-1.0, transpose_b=transpose)


def triangle(
    run: Runtime, a: Any, *, upper: bool, diagonal: bool = True, mirrored: bool = False, scale: float = 1.0
) -> Any:
    """scale times a triangle of each matrix of a contiguous array; the rest is 0, or with `mirrored` the same numbers
    again (of square matrices), so that the result is symmetric. `diagonal`: whether it belongs to the triangle."""
    rows, columns = a.shape[-2:]
    arguments = dict(a=a, out=Out(tuple(a.shape), run.dtype(a)), rows=rows, columns=columns, scale=scale)
    groups = (-(-rows // LANES), math.prod(a.shape[:-2]))
    (out,) = run.launch(TRIANGLE, (run.dtype(a),), (upper, mirrored, diagonal), arguments, groups, (LANES,))
    return out
