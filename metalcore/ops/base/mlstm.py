"""Plans of mLSTM by chunks: kernels/mlstm.metal, mlstm_scan.metal and mlstm_gradient.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from metalcore.ops.base import mlstm_steps
from metalcore.ops.base.launch import accumulator
from metalcore.runtimes.kernel import Items, Kernel, Out
from metalcore.runtimes.policy import policy

STATES = ("is_sigmoid", "has_states")
GATES = Kernel("mlstm", "mlstm_gates", STATES)
SCORES = Kernel("mlstm", "mlstm_scores", STATES)
SCAN = Kernel("mlstm_scan", "mlstm_scan", (*STATES, "is_backwards", "is_of_keys", "keeps_states"))
DELTA = Kernel("mlstm_gradient", "mlstm_delta", STATES)
SCORE_GRADIENT = Kernel("mlstm_gradient", "mlstm_score_gradient", STATES)
GATE_GRADIENT = Kernel("mlstm_gradient", "mlstm_gate_gradient", (*STATES, "has_last"))
PARALLEL = Kernel("mlstm_parallel", "mlstm_parallel", ("is_sigmoid",))

GATE_PLANES, NORM_PLANES, DELTA_PLANES = 12, 3, 3  # as in kernels/mlstm.h
LANES = 32
DEEPEST = 512
LEAST_CHUNK, USUAL_CHUNK = 16, 64
_FEW, _TINY = 1 << 21, 1 << 15  # multiplications
MOST_SIMDGROUPS = 8


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
        """A chunk of 1: row by row where rows are few, else by chunks of USUAL_CHUNK."""
        longest = max(LEAST_CHUNK, 1 << max(0, q.shape[2] - 1).bit_length())
        size = min(USUAL_CHUNK if chunk == 1 else max(LEAST_CHUNK, chunk), longest)
        batch, each, length, depth = q.shape
        return Sizes(batch, each, length, depth, v.shape[-1], size, chunk == 1)

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

    def sides(self, sizes: Sizes) -> tuple[int, int]:
        """Elements of a column of the state, and columns."""
        return (sizes.width, sizes.depth) if self.is_of_keys else (sizes.depth, sizes.width)


def row_room(run: Any, dtype: str, count: int) -> tuple[tuple[int, int], int]:
    """Room for a row's elements in all, those that one simdgroup has of them, and the threads of all simdgroups."""
    chosen = policy("mlstm", run.family, dtype)
    room = next(n for n in chosen["rooms"] if n >= count)
    each = min(room, next(n for n in chosen["slices"] if n * MOST_SIMDGROUPS >= room))
    return (room, each), -(-count // each) * LANES


def gates_of(run: Any, sizes: Sizes, i: Any, f: Any, m: Any, is_sigmoid: bool) -> tuple[Any, Any, Any]:
    """Planes of gates, what each chunk keeps, the last stabiliser."""
    wide = accumulator(run.dtype(i))
    arguments = (
        *(i, f, m, Out((GATE_PLANES, sizes.heads, sizes.length), wide), Out((sizes.heads, sizes.chunks), wide)),
        *(Out(sizes.leading, wide), sizes.heads, sizes.length, sizes.chunk),
    )
    types = (run.dtype(i), wide if m is None else run.dtype(m))
    grid = (-(-sizes.heads // LANES),)
    gates, keep, m_last = run.launch(GATES, types, (is_sigmoid, m is not None), arguments, grid, (LANES,))
    return gates, keep, m_last


def prepare(
    run: Any, sizes: Sizes, q: Any, k: Any, i: Any, f: Any, n: Any, m: Any, eps: float, is_sigmoid: bool
) -> Prepared:
    """Of chunks, with the normaliser row by row: all rests on it, and it is little work beside the rest."""
    dtype, chunk = run.dtype(q), sizes.chunk
    found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
    room, threads = row_room(run, dtype, sizes.depth)
    scores = Out((sizes.heads, sizes.chunks, chunk, chunk), accumulator(dtype))
    arguments = (q, k, found.gates, scores, sizes.heads, sizes.length, sizes.depth, chunk, sizes.scale)
    constants, grid = (is_sigmoid, n is not None), (sizes.blocks, sizes.heads)
    (scores,) = run.launch(SCORES, (dtype, *room), constants, arguments, grid, (threads,))
    return replace(found, scores=scores)


def scan(
    run: Any,
    sizes: Sizes,
    way: Pass,
    matrix: Any,
    found: Prepared,
    deltas: Any,
    kept: Any,
    state: str,
    is_sigmoid: bool,
    result: str = "",
) -> list[Any]:
    """Rows, the last state and normaliser, kept states, their products with gradients, products of rows with theirs."""
    dtype, wide = run.dtype(way.lanes), accumulator(run.dtype(way.lanes))
    depth, width = way.sides(sizes)
    room, threads = row_room(run, dtype, depth)
    columns = -(-width // LANES)
    nothing = Out((0,), wide)
    keeps, uses = way.keeps_states and not way.is_backwards, way.keeps_states and way.is_backwards
    arguments = (
        *(way.lanes, way.read, way.write, way.own, matrix, found.gates, found.keep, found.norms, deltas, *way.initial),
        Out((*sizes.leading, sizes.length, width), result or dtype),
        Out((0,) if way.is_of_keys else (*sizes.leading, depth, width), state),
        Out((*sizes.leading, width) if way.is_of_keys and way.is_backwards else (0,), state),
        Out((sizes.heads, sizes.chunks + 1, columns, depth + 1, LANES), wide) if keeps else nothing,
        kept,
        Out((sizes.heads, sizes.chunks + 2, columns), wide) if uses else nothing,
        Out((sizes.heads, sizes.length, columns), wide) if way.is_of_keys else nothing,
        *(sizes.heads, sizes.length, depth, width, sizes.chunk, sizes.scale),
    )
    given = wide if way.initial[0] is None else run.dtype(way.initial[0])
    constants = (is_sigmoid, way.initial[0] is not None, way.is_backwards, way.is_of_keys, way.keeps_states)
    grid = (columns, sizes.heads)
    types = (dtype, result or dtype, given, state, *room)
    launched: list[Any] = run.launch(SCAN, types, constants, arguments, grid, (threads,))
    return launched


def forward(
    run: Any,
    q: Any,
    k: Any,
    v: Any,
    i: Any,
    f: Any,
    c_initial: Any,
    n_initial: Any,
    m_initial: Any,
    eps: float,
    chunk: int,
    is_sigmoid: bool,
) -> tuple[Any, ...]:
    sizes = Sizes.of(q, v, chunk)
    q, k, v, i, f = (run.contiguous(x) for x in (q, k, v, i, f))
    c, n, m = (None if x is None else run.contiguous(x) for x in (c_initial, n_initial, m_initial))
    wide = accumulator(run.dtype(q))
    way = Pass(v, q, k, None, False, False, False, (c, None))
    if sizes.is_few(run.dtype(q)):
        found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        h, _, c_last, *_ = mlstm_steps.steps(run, sizes, way, found, None, None, wide, is_sigmoid)
    else:
        found = prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        h, c_last, *_ = scan(run, sizes, way, found.scores, found, None, None, wide, is_sigmoid)
    return h, c_last, found.n_last, found.m_last


def forward_by_rows(
    run: Any,
    q: Any,
    k: Any,
    v: Any,
    i: Any,
    f: Any,
    c_initial: Any,
    n_initial: Any,
    m_initial: Any,
    eps: float,
    chunk: int,
    is_sigmoid: bool,
) -> tuple[Any, ...]:
    sizes = Sizes.of(q, v, chunk)
    q, k, v, i, f = (run.contiguous(x) for x in (q, k, v, i, f))
    c, n, m = (None if x is None else run.contiguous(x) for x in (c_initial, n_initial, m_initial))
    if sizes.length == 1 and c is not None and not is_sigmoid and not sizes.is_tiny(run.dtype(q)):
        return mlstm_steps.step(run, sizes, (q, k, v, i, f, c, n, m), eps)
    way, exact = Pass(v, q, k, None, False, False, False, (c, None)), sizes.is_few(run.dtype(q))
    found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
    wide = accumulator(run.dtype(q))
    h, _, c_last, *_ = mlstm_steps.steps(run, sizes, way, found, None, None, wide, is_sigmoid, exact)
    return h, c_last, found.n_last, found.m_last


def forward_parallel(
    run: Any, q: Any, k: Any, v: Any, i: Any, f: Any, eps: float, chunk: int, is_sigmoid: bool
) -> tuple[Any, ...]:
    sizes = Sizes.of(q, v, chunk)
    dtype = run.dtype(q)
    if sizes.is_few(dtype):
        return forward(run, q, k, v, i, f, None, None, None, eps, chunk, is_sigmoid)[:1]
    q, k, v, i, f = (run.contiguous(x) for x in (q, k, v, i, f))
    whole = replace(sizes, chunk=max(1, sizes.length))
    found = mlstm_steps.prepare(run, whole, q, k, i, f, None, None, eps, is_sigmoid)
    room, threads = row_room(run, dtype, max(sizes.depth, sizes.width))
    numbers = (sizes.heads, sizes.length, sizes.depth, sizes.width, sizes.scale)
    arguments = (q, k, v, found.gates, found.norms, Out(tuple(v.shape), dtype), *numbers)
    grid = (-(-sizes.length // LANES), sizes.heads)
    return tuple(run.launch(PARALLEL, (dtype, *room), (is_sigmoid,), arguments, grid, (threads,)))


def backward_parallel(
    run: Any,
    grad_h: Any,
    q: Any,
    k: Any,
    v: Any,
    i: Any,
    f: Any,
    h: Any,
    eps: float,
    chunk: int,
    is_sigmoid: bool,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    states = (None, None, None)
    given = backward(
        *(run, grad_h, *states, q, k, v, i, f, *states, h, eps, chunk, is_sigmoid, (*wanted, False, False, False))
    )
    return given[:5]


def backward(
    run: Any,
    grad_h: Any,
    grad_c: Any,
    grad_n: Any,
    grad_m: Any,
    q: Any,
    k: Any,
    v: Any,
    i: Any,
    f: Any,
    c_initial: Any,
    n_initial: Any,
    m_initial: Any,
    h: Any,
    eps: float,
    chunk: int,
    is_sigmoid: bool,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    sizes = Sizes.of(q, v, chunk)
    dh, dc, dn, dm = (None if x is None else run.contiguous(x) for x in (grad_h, grad_c, grad_n, grad_m))
    q, k, v, i, f, h = (run.contiguous(x) for x in (q, k, v, i, f, h))
    c, n, m = (None if x is None else run.contiguous(x) for x in (c_initial, n_initial, m_initial))
    state = accumulator(run.dtype(q)) if c is None else run.dtype(c)
    passes = (
        Pass(k, dh, v, q, False, True, True, (c, n)),  # dq
        Pass(q, v, dh, k, True, True, True, (dc, dn)),  # dk
        Pass(dh, k, q, None, True, False, False, (dc, None)),  # dv
    )
    again = Pass(v, q, k, None, False, False, False, (c, None))
    if sizes.is_few(run.dtype(q)):
        found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        given = mlstm_steps.gradients(run, sizes, again, passes, found, i, f, dm, eps, state, is_sigmoid)
    else:
        found = prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        if run.dtype(h) != accumulator(run.dtype(h)):  # once more, for what its rounding lost
            wide = accumulator(run.dtype(h))
            h, *_ = scan(run, sizes, again, found.scores, found, None, None, wide, is_sigmoid, wide)
        given = gradients(run, sizes, passes, found, h, i, f, dm, c is not None, eps, state, is_sigmoid)
    is_there = (*(True,) * 5, *(x is not None for x in (c, n, m)))
    none = run.empty((0,), run.dtype(q))
    return tuple(x if want and there else none for x, want, there in zip(given, wanted, is_there, strict=True))


def gradients(
    run: Any,
    sizes: Sizes,
    passes: tuple[Pass, Pass, Pass],
    found: Prepared,
    h: Any,
    i: Any,
    f: Any,
    dm: Any,
    has_states: bool,
    eps: float,
    state: str,
    is_sigmoid: bool,
) -> tuple[Any, ...]:
    of_q, of_k, of_v = passes
    dh, v = of_q.read, of_q.write
    dtype, wide = run.dtype(dh), accumulator(run.dtype(dh))
    heads, length, chunk = sizes.heads, sizes.length, sizes.chunk
    rows, constants = heads * length, (is_sigmoid, has_states)
    arguments: Items = (h, dh, found.norms, Out((DELTA_PLANES, heads, length), wide), rows, sizes.width, eps)
    (deltas,) = run.launch(DELTA, (dtype, run.dtype(h)), constants, arguments, (rows,), (LANES,))
    room, threads = row_room(run, dtype, sizes.width)
    a_row = Out((heads, length), wide)
    arguments = (
        *(dh, v, found.gates, found.norms, deltas, found.scores, Out((heads, sizes.chunks, chunk, chunk), wide)),
        *(a_row, a_row, Out((heads, sizes.blocks, chunk), wide), heads, length, sizes.width, chunk, sizes.scale),
    )
    grid = (sizes.blocks, heads)
    matrix, *sums = run.launch(SCORE_GRADIENT, (dtype, *room), constants, arguments, grid, (threads,))
    dq, _, _, states, _, products = scan(run, sizes, of_q, matrix, found, deltas, None, state, is_sigmoid)
    dk, _, dn_initial, _, shares, others = scan(run, sizes, of_k, matrix, found, deltas, states, state, is_sigmoid)
    dv, dc_initial, *_ = scan(run, sizes, of_v, found.scores, found, deltas, None, state, is_sigmoid)
    arguments = (
        *(i, f, found.gates, found.keep, deltas, *sums, products, others, shares, dm),
        *(Out(tuple(i.shape), dtype), Out(tuple(f.shape), dtype)),
        *(Out(sizes.leading if has_states else (0,), state), heads, length, chunk, -(-sizes.depth // LANES)),
    )
    lanes = (-(-heads // LANES),)
    di, df, dm_initial = run.launch(
        GATE_GRADIENT, (dtype, state), (*constants, dm is not None), arguments, lanes, (LANES,)
    )
    return dq, dk, dv, di, df, dc_initial, dn_initial, dm_initial
