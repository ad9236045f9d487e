"""What the plans of mLSTM share: sizes, gates, and the ways through a sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from metalcore.ops.base.launch import accumulator
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

GATES = Kernel("mlstm", "mlstm_gates", ("is_sigmoid", "has_states"))

GATE_PLANES, NORM_PLANES, DELTA_PLANES = 12, 3, 4  # as in kernels/mlstm.h
LANES = 32
DEEPEST = 512
BY_ROWS = 1  # as the size of a chunk
LEAST_CHUNK, USUAL_CHUNK = 16, 64
_FEW, _TINY = 1 << 21, 1 << 15  # multiplications


@dataclass(frozen=True)
class Sizes:
    """Shapes of a call: queries and keys (batch, heads, length, depth), values (..., width)."""

    batch: int
    each: int  # heads
    length: int
    depth: int
    width: int
    chunk: int
    by_rows: bool

    @staticmethod
    def of(q: Any, v: Any, chunk: int) -> Sizes:
        """A gradient of BY_ROWS is by chunks of USUAL_CHUNK where rows are many."""
        longest = max(LEAST_CHUNK, 1 << max(0, q.shape[2] - 1).bit_length())
        size = min(USUAL_CHUNK if chunk == BY_ROWS else max(LEAST_CHUNK, chunk), longest)
        batch, each, length, depth = q.shape
        return Sizes(batch, each, length, depth, v.shape[-1], size, chunk == BY_ROWS)

    @property
    def heads(self) -> int:
        return self.batch * self.each

    @property
    def chunks(self) -> int:
        return -(-self.length // self.chunk)

    @property
    def blocks(self) -> int:
        """Of 32 rows, of all chunks."""
        return self.chunks * -(-self.chunk // LANES)

    @property
    def leading(self) -> tuple[int, int]:
        return self.batch, self.each

    def is_few(self, dtype: str) -> bool:
        """Whether rows are taken one by one with more care, at several times the time."""
        is_care = dtype == "float32" or (dtype == "float64" and self.by_rows)
        return is_care and self.heads * self.length * self.depth * self.width < _FEW

    def is_tiny(self, dtype: str) -> bool:
        """Whether one row is taken with more care: of more elements torch's largest error is near what it can be."""
        return dtype == "float32" and self.heads * self.depth * self.width < _TINY

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(max(1, self.depth))


@dataclass(frozen=True)
class Prepared:
    """What forward and backward compute alike."""

    gates: Any
    keep: Any
    m_last: Any
    n_last: Any
    norms: Any
    scores: Any = None


@dataclass(frozen=True)
class Pass:
    """One of the four ways through a sequence: see kernels/mlstm_scan.metal."""

    lanes: Any
    read: Any
    write: Any
    own: Any
    is_backwards: bool
    is_of_keys: bool
    keeps_states: bool
    initial: tuple[Any, Any]

    def arrays(self) -> dict[str, Any]:
        """The arrays by the names that kernels have for them."""
        c, n = self.initial
        return dict(lanes=self.lanes, read=self.read, write=self.write, own=self.own, initial=c, n_initial=n)

    def sides(self, sizes: Sizes) -> tuple[int, int]:
        """Elements of a column of the state, and columns."""
        return (sizes.width, sizes.depth) if self.is_of_keys else (sizes.depth, sizes.width)


def room_for(run: Runtime, dtype: str, count: int) -> int:
    """For so many elements of a row."""
    rooms: list[int] = policy("mlstm", run.family, dtype)["rooms"]
    return next(n for n in rooms if n >= count)


def gates_of(run: Runtime, sizes: Sizes, i: Any, f: Any, m: Any, is_sigmoid: bool) -> tuple[Any, Any, Any]:
    """Planes of gates, what each chunk keeps, the last stabiliser."""
    wide = accumulator(run.dtype(i))
    arguments = dict(i=i, f=f, m_initial=m, gates=Out((GATE_PLANES, sizes.heads, sizes.length), wide))
    arguments |= dict(keep=Out((sizes.heads, sizes.chunks), wide), m_last=Out(sizes.leading, wide))
    arguments |= dict(heads=sizes.heads, length=sizes.length, chunk=sizes.chunk)
    types = (run.dtype(i), wide if m is None else run.dtype(m))
    grid = (-(-sizes.heads // LANES),)
    gates, keep, m_last = run.launch(GATES, types, (is_sigmoid, m is not None), arguments, grid, (LANES,))
    return gates, keep, m_last
