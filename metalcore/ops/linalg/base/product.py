"""Products of matrices: kernels/linalg/matmul.metal. `matmul` makes a new array, `update` changes a block of one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from metalcore import settings
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

TILED = Kernel("linalg/matmul", "matmul_tiled", ("adds", "copies", "is_lower"))
COPIED_ROWS = 16  # rows outside the block that a threadgroup copies


class Block(NamedTuple):
    """A rectangle of each matrix of a contiguous array."""

    array: Any
    row: int
    column: int
    rows: int
    columns: int

    @staticmethod
    def of(array: Any) -> Block:
        """The whole."""
        return Block(array, 0, 0, array.shape[-2], array.shape[-1])

    @property
    def pitch(self) -> int:
        """Elements from a row to the next."""
        return int(self.array.shape[-1])

    @property
    def place(self) -> tuple[int, int, int]:
        """What a kernel is told: where the block begins, the pitch, and the distance of matrices (0: there is one)."""
        shape = self.array.shape
        stride = shape[-2] * shape[-1] if len(shape) > 2 else 0
        return self.row * self.pitch + self.column, self.pitch, stride


def matmul(
    run: Any, a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
) -> Any:
    """alpha op(a) op(b) of contiguous float32 (or float64) arrays of matrices. Leading dimensions are the same, or one
    of the two is a single matrix."""
    leading = tuple((a if len(a.shape) >= len(b.shape) else b).shape[:-2])
    rows, depth = a.shape[-2:] if not transpose_a else (a.shape[-1], a.shape[-2])
    columns = b.shape[-2] if transpose_b else b.shape[-1]
    shape = (*leading, rows, columns)
    number = math.prod(leading)
    if leading and len(b.shape) == 2 and not transpose_a:  # one matrix of many rows
        rows, number = rows * number, 1
        a = a.reshape(rows, depth)
    place = (0, columns, rows)
    out = Out(shape, run.dtype(a))
    sizes = (rows, columns, depth)
    flags, plain = (transpose_a, transpose_b), (False, False, False)
    return _launch(run, Block.of(a), Block.of(b), None, out, sizes, place, number, alpha, flags, plain, 0)


def multiply(run: Any, a: Block, b: Block, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """op(a) op(b) of blocks, whose arrays have the same leading dimensions, as a new array."""
    rows, depth = (a.columns, a.rows) if transpose_a else (a.rows, a.columns)
    columns = b.rows if transpose_b else b.columns
    leading = tuple(a.array.shape[:-2])
    out = Out((*leading, rows, columns), run.dtype(a.array))
    sizes, place, flags = (rows, columns, depth), (0, columns, rows), (transpose_a, transpose_b)
    number = math.prod(leading)
    return _launch(run, a, b, None, out, sizes, place, number, 1.0, flags, (False, False, False), 0)


def update(
    run: Any,
    c: Block,
    a: Block,
    b: Block,
    *,
    alpha: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    lower: bool = False,
) -> Any:
    """The array of `c` with alpha op(a) op(b) added to the block. It is changed in place where the runtime can, else
    it is a new array. `lower`: what is above the diagonal of the block is not needed and may be anything."""
    depth = a.rows if transpose_a else a.columns
    array, place = c.array, (c.row * c.pitch + c.column, c.pitch, c.array.shape[-2])
    sizes, flags = (c.rows, c.columns, depth), (transpose_a, transpose_b)
    number = math.prod(array.shape[:-2])
    if run.writes_in_place:
        if 0 not in sizes:
            _launch(run, a, b, array, array, sizes, place, number, alpha, flags, (True, False, lower), 0)
        return array
    extra = -(-array.shape[-2] // COPIED_ROWS)
    out = Out(tuple(array.shape), run.dtype(array))
    return _launch(run, a, b, array, out, sizes, place, number, alpha, flags, (True, True, lower), extra)


def _launch(
    run: Any,
    a: Block,
    b: Block,
    c: Any,
    out: Any,
    sizes: tuple[int, int, int],
    place: tuple[int, int, int],
    number: int,
    alpha: float,
    transposed: tuple[bool, bool],
    constants: tuple[bool, bool, bool],
    copies: int,
) -> Any:
    dtype = run.dtype(a.array)
    chosen = policy("linalg_matmul", run.family, dtype)
    rows, columns = settings.matmul_tile() or (chosen["tile_rows"], chosen["tile_columns"])
    across, down = -(-sizes[1] // columns), -(-sizes[0] // rows)
    if copies:
        across = max(across, 1)
        down += -(-copies // across)
    types = (dtype, rows, columns, *map(int, transposed))
    arguments = (a.array, b.array, c, out, *sizes, *a.place, *b.place, *place, alpha)
    made = run.launch(TILED, types, constants, arguments, (across, down, number), (chosen["threads"],))
    return made[0] if made else out
