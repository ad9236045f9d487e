"""Products of matrices: kernels/linalg/matmul.metal. `matmul` makes a new array, `update` changes a block of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from metalcore import settings
from metalcore.errors import ArgumentError
from metalcore.ops.linalg.base.matrix import LANES, capacity, lane_groups
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

TILED = Kernel("linalg/matmul", "matmul_tiled", ("adds", "copies", "is_lower"))
SIMDGROUP = Kernel("linalg/matmul_simdgroup", "matmul_simdgroup", ("adds", "copies", "is_lower"))
VECTOR = Kernel("linalg/matmul_small", "matmul_vector")
IN_LANES = Kernel("linalg/matmul_small", "matmul_lanes", ("transpose_a", "transpose_b"))
VECTOR_ROWS = 4  # ROWS in the kernel
TINY = 16  # matrices up to this size go to threads
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
    def begin(self) -> int:
        """Where the block begins."""
        return self.row * self.pitch + self.column

    def place(self, name: str) -> dict[str, int]:
        """What a kernel that calls it `name` is told: where the block begins, the pitch, and the distance of matrices
        (0: there is one)."""
        shape = self.array.shape
        stride = shape[-2] * shape[-1] if len(shape) > 2 else 0
        return {f"{name}_begin": self.begin, f"{name}_pitch": self.pitch, f"{name}_stride": stride}


def matmul(
    run: Runtime, a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
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
    out, sizes = Out(shape, run.dtype(a)), (rows, columns, depth)
    flags = (transpose_a, transpose_b)
    whole = Product(a, b, out, sizes, number, alpha, flags)
    if depth and 1 in (rows, columns):
        found = _vector(run, whole)
        if found is not None:
            return found
    if depth and max(sizes) <= TINY and number >= _policy(run, a)["lanes_from"] and len(a.shape) == len(b.shape):
        return _in_lanes(run, whole)
    first, second, plain = Block.of(a), Block.of(b), (False, False, False)
    if columns == 1 and transpose_a and not transpose_b:  # as a row times a matrix, whose rows lie along memory
        first, second, sizes, flags = second, first, (1, rows, depth), (True, False)
    place = (0, sizes[1], sizes[0])
    return _launch(run, first, second, None, out, sizes, place, number, alpha, flags, plain, 0)


class Product(NamedTuple):
    """A product of whole matrices, `number` of them: alpha op(a) op(b) of (rows, columns, depth)."""

    a: Any
    b: Any
    out: Out
    sizes: tuple[int, int, int]
    number: int
    alpha: float
    transposed: tuple[bool, bool]


def _vector(run: Runtime, product: Product) -> Any:
    """The product of a matrix and a vector where rows of the matrix lie along memory; None where they do not."""
    a, b, out, (rows, columns, depth), number, alpha, transposed = product
    if columns == 1 and not transposed[0]:
        matrix, vector, height = a, b, rows
    elif rows == 1 and transposed[1]:
        matrix, vector, height = b, a, columns
    else:
        return None
    matrix_stride, stride = (x.shape[-2] * x.shape[-1] if len(x.shape) > 2 else 0 for x in (matrix, vector))
    arguments = dict(
        a=matrix, x=vector, y=out, rows=height, columns=depth, a_stride=matrix_stride, x_stride=stride, alpha=alpha
    )
    groups = (-(-height // VECTOR_ROWS), number)
    (y,) = run.launch(VECTOR, (out.dtype,), (), arguments, groups, (LANES,))
    return y


def _in_lanes(run: Runtime, product: Product) -> Any:
    a, b, out, sizes, number, alpha, transposed = product
    types, (rows, columns, depth) = (out.dtype, capacity(max(sizes))), sizes
    arguments = dict(a=a, b=b, out=out, count=number, rows=rows, columns=columns, depth=depth, alpha=alpha)
    (found,) = run.launch(IN_LANES, types, transposed, arguments, lane_groups(number), (LANES,))
    return found


def multiply(run: Runtime, a: Block, b: Block, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """op(a) op(b) of blocks, whose arrays have the same leading dimensions, as a new array."""
    rows, depth = (a.columns, a.rows) if transpose_a else (a.rows, a.columns)
    columns = b.rows if transpose_b else b.columns
    leading = tuple(a.array.shape[:-2])
    out = Out((*leading, rows, columns), run.dtype(a.array))
    sizes, place, flags = (rows, columns, depth), (0, columns, rows), (transpose_a, transpose_b)
    number = math.prod(leading)
    return _launch(run, a, b, None, out, sizes, place, number, 1.0, flags, (False, False, False), 0)


def update(
    run: Runtime,
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
    array, place = c.array, (c.begin, c.pitch, c.array.shape[-2])
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
    run: Runtime,
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
    dtype, chosen = run.dtype(a.array), _policy(run, a.array)
    rows, columns = settings.matmul_tile() or (chosen["tile_rows"], chosen["tile_columns"])
    is_simdgroup = chosen["simdgroup_matrix"] and dtype == "float32"
    down = _check_tile(rows, columns, is_simdgroup)
    across, high = -(-sizes[1] // columns), -(-sizes[0] // rows)
    if copies:
        across = max(across, 1)
        high += -(-copies // across)
    begin, pitch, height = place
    arguments = dict(a=a.array, b=b.array, c=c, out=out, rows=sizes[0], columns=sizes[1], depth=sizes[2])
    arguments |= dict(a.place("a"), **b.place("b"), c_begin=begin, c_pitch=pitch, c_rows=height, alpha=alpha)
    groups, (first, second) = (across, high, number), map(int, transposed)
    if is_simdgroup:
        types: tuple[Any, ...] = (dtype, rows, columns, down, first, second)
        made = run.launch(SIMDGROUP, types, constants, arguments, groups, (4 * LANES,))
    else:
        types = (dtype, rows, columns, first, second)
        made = run.launch(TILED, types, constants, arguments, groups, (chosen["threads"],))
    return made[0] if made else out


def _policy(run: Runtime, array: Any) -> Mapping[str, Any]:
    return policy("linalg_matmul", run.family, run.dtype(array))


def _check_tile(rows: int, columns: int, is_simdgroup: bool) -> int:
    """How many of 4 simdgroups share the rows of a tile, and an error where a kernel cannot have such a tile."""
    if not is_simdgroup:
        if columns not in (8, 16, 32) or not 1 <= rows <= 256:
            raise ArgumentError(f"a tile of a product has 1 to 256 rows and 8, 16 or 32 columns, not {rows}x{columns}")
        return 1
    down = 4 if columns == 8 else 1 if rows == 8 else 2
    if rows % (8 * down) or columns % (32 // down) or not 0 < rows * columns <= 4096:
        raise ArgumentError(
            f"a tile of a product by simdgroup_matrix is of four parts whose sides are multiples of 8, as 16x16, 32x8 "
            f"and 8x32, with up to 64x64 numbers, not {rows}x{columns}"
        )
    return down
