"""QR of matrices with many rows and few columns: kernels/linalg/tall_qr.metal."""

from __future__ import annotations

from typing import Any, NamedTuple

from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, lane_groups
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy

UP = Kernel("linalg/tall_qr", "tall_qr_up")
TOP = Kernel("linalg/tall_qr", "tall_qr_top")
DOWN = Kernel("linalg/tall_qr", "tall_qr_down")
CHUNK = 32  # rows, as in the kernel


class Level(NamedTuple):
    """Rows of one level of the tree, and the blocks that share those after the first `skip`."""

    rows: int
    skip: int
    blocks: int

    def groups(self, number: int) -> tuple[int, int, int]:
        return (-(-self.blocks // LANES), number, 1)

    def chunks(self, columns: int) -> int:
        longest = -(-(self.rows - self.skip) // self.blocks)
        return -(-(longest - columns) // CHUNK)


def levels(run: Any, dtype: str, rows: int, columns: int) -> list[Level]:
    """From the matrix to a single block."""
    chosen = policy("linalg_tall_qr", run.family, dtype)
    blocks = max(1, min(chosen["blocks"], (rows - columns) // (chosen["least"] * columns)))
    found = [Level(rows, columns, blocks)]
    while blocks > 1:
        rows, blocks = blocks * columns, max(1, blocks // chosen["fan"])
        found.append(Level(rows, 0, blocks))
    return found


def suits(run: Any, batch: Batch, dtype: str) -> bool:
    """Whether a matrix is tall enough for a tree of blocks."""
    chosen = policy("linalg_tall_qr", run.family, dtype)
    return 0 < batch.columns <= chosen["columns"] and batch.rows >= chosen["rows"] * batch.columns


def tall_qr(run: Any, work: Any, wants_q: bool) -> tuple[Any, Any]:
    """Q (None where it is not wanted) and R, reduced."""
    batch, dtype = Batch.of(work), run.dtype(work)
    number, n = batch.number, batch.columns
    types = (dtype, max(8, capacity(n)))
    tree, kept, r = levels(run, dtype, batch.rows, n), [], work
    for level in tree:
        groups, chunks = level.groups(number), level.chunks(n)
        lanes = groups[0] * number * LANES
        outs = (
            Out((lanes * (n + chunks * CHUNK) * n,), dtype),
            Out((lanes * (1 + chunks) * n,), dtype),
            Out((number, level.blocks * n, n), dtype),
        )
        numbers = (level.rows, n, level.skip, level.blocks)
        v, tau, r = run.launch(UP, types, (), (r, *outs, *numbers), groups, (LANES,))
        kept.append((v, tau))
    outs = (Out((number, 2 * n, n) if wants_q else (0,), dtype), Out(batch.shape(n, n), dtype))
    numbers = (number, batch.rows, n, int(wants_q))
    top, r = run.launch(TOP, types, (), (work, r, *outs, *numbers), lane_groups(number), (LANES,))
    if not wants_q:
        return None, r
    above = top
    for i, (level, (v, tau)) in enumerate(zip(reversed(tree), reversed(kept), strict=True)):
        shape = batch.shape(level.rows, n) if level.skip else (number, level.rows, n)
        numbers = (level.rows, n, level.skip, level.blocks, int(i == 0))
        arguments = (above, top, v, tau, Out(shape, dtype), *numbers)
        (above,) = run.launch(DOWN, types, (), arguments, level.groups(number), (LANES,))
    return above, r
