"""Plans of mLSTM by chunks: kernels/mlstm.metal, mlstm_scan.metal and mlstm_gradient.metal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from metalcore.ops.base import mlstm_steps
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.mlstm_parts import DELTA_PLANES, LANES, Pass, Prepared, Sizes, room_for
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

SCORES = Kernel("mlstm", "mlstm_scores")
SCAN = Kernel("mlstm_scan", "mlstm_scan", ("has_states", "is_backwards", "is_of_keys", "keeps_states"))
DELTA = Kernel("mlstm_gradient", "mlstm_delta")
SCORE_GRADIENT = Kernel("mlstm_gradient", "mlstm_score_gradient")
GATE_GRADIENT = Kernel("mlstm_gradient", "mlstm_gate_gradient", ("is_sigmoid", "has_states", "has_last"))
MOST_SIMDGROUPS = 8


def row_room(run: Runtime, dtype: str, count: int) -> tuple[tuple[int, int], int]:
    """Room for a row's elements in all, those that one simdgroup has of them, and the threads of all simdgroups."""
    room = room_for(run, dtype, count)
    slices: list[int] = policy("mlstm", run.family, dtype)["slices"]
    each = min(room, next(n for n in slices if n * MOST_SIMDGROUPS >= room))
    return (room, each), -(-count // each) * LANES


def prepare(
    run: Runtime, sizes: Sizes, q: Any, k: Any, i: Any, f: Any, n: Any, m: Any, eps: float, is_sigmoid: bool
) -> Prepared:
    """Of chunks, with the normaliser row by row: all rests on it, and it is little work beside the rest."""
    dtype, chunk = run.dtype(q), sizes.chunk
    found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
    room, threads = row_room(run, dtype, sizes.depth)
    scores = Out((sizes.heads, sizes.chunks, chunk, chunk), accumulator(dtype))
    arguments = dict(q=q, k=k, gates=found.gates, scores=scores)
    arguments |= dict(heads=sizes.heads, length=sizes.length, depth=sizes.depth, chunk=chunk, scale=sizes.scale)
    (scores,) = run.launch(SCORES, (dtype, *room), (), arguments, (sizes.blocks, sizes.heads), (threads,))
    return replace(found, scores=scores)


def scan(
    run: Runtime,
    sizes: Sizes,
    way: Pass,
    matrix: Any,
    found: Prepared,
    deltas: Any,
    kept: Any,
    state: str,
    result: str = "",
) -> list[Any]:
    """Rows, the last state and normaliser, kept states, their products with gradients, products of rows with theirs."""
    dtype, wide = run.dtype(way.lanes), accumulator(run.dtype(way.lanes))
    depth, width = way.sides(sizes)
    room, threads = row_room(run, dtype, depth)
    columns = -(-width // LANES)
    nothing = Out((0,), wide)
    keeps, uses = way.keeps_states and not way.is_backwards, way.keeps_states and way.is_backwards
    arguments = dict(
        way.arrays(),
        matrix=matrix,
        gates=found.gates,
        keep=found.keep,
        norms=found.norms,
        deltas=deltas,
        out=Out((*sizes.leading, sizes.length, width), result or dtype),
        last=Out((0,) if way.is_of_keys else (*sizes.leading, depth, width), state),
        n_last=Out((*sizes.leading, width) if way.is_of_keys and way.is_backwards else (0,), state),
        states=Out((sizes.heads, sizes.chunks + 1, columns, depth + 1, LANES), wide) if keeps else nothing,
        kept_states=kept,
        shares=Out((sizes.heads, sizes.chunks + 2, columns, 2), wide) if uses else nothing,
        products=Out((sizes.heads, sizes.length, columns), wide) if way.is_of_keys else nothing,
        heads=sizes.heads,
        length=sizes.length,
        depth=depth,
        width=width,
        chunk=sizes.chunk,
        scale=sizes.scale,
    )
    given = wide if way.initial[0] is None else run.dtype(way.initial[0])
    constants = (way.initial[0] is not None, way.is_backwards, way.is_of_keys, way.keeps_states)
    grid = (columns, sizes.heads)
    types = (dtype, result or dtype, given, state, *room)
    launched: list[Any] = run.launch(SCAN, types, constants, arguments, grid, (threads,))
    return launched


def gradients(
    run: Runtime,
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
    rows = heads * length
    arguments = dict(h=h, dh=dh, norms=found.norms, deltas=Out((DELTA_PLANES, heads, length), wide))
    arguments |= dict(rows=rows, width=sizes.width, eps=eps)
    (deltas,) = run.launch(DELTA, (dtype, run.dtype(h)), (), arguments, (rows,), (LANES,))
    room, threads = row_room(run, dtype, sizes.width)
    a_row = Out((heads, length), wide)
    arguments = dict(dh=dh, v=v, gates=found.gates, norms=found.norms, deltas=deltas, scores=found.scores)
    arguments |= dict(gradients=Out((heads, sizes.chunks, chunk, chunk), wide), own=a_row)
    arguments |= dict(row_sums=a_row, key_sums=Out((heads, sizes.blocks, chunk), wide))
    arguments |= dict(heads=heads, length=length, width=sizes.width, chunk=chunk, scale=sizes.scale)
    grid = (sizes.blocks, heads)
    matrix, own, row_sums, key_sums = run.launch(SCORE_GRADIENT, (dtype, *room), (), arguments, grid, (threads,))
    dq, _, _, states, _, products = scan(run, sizes, of_q, matrix, found, deltas, None, state)
    dk, _, dn_initial, _, shares, others = scan(run, sizes, of_k, matrix, found, deltas, states, state)
    dv, dc_initial, *_ = scan(run, sizes, of_v, found.scores, found, deltas, None, state)
    arguments = dict(
        i=i,
        f=f,
        gates=found.gates,
        keep=found.keep,
        deltas=deltas,
        own=own,
        row_sums=row_sums,
        key_sums=key_sums,
        read=products,
        written=others,
        shares=shares,
        dm_last=dm,
        di=Out(tuple(i.shape), dtype),
        df=Out(tuple(f.shape), dtype),
        dm_initial=Out(sizes.leading if has_states else (0,), state),
        heads=heads,
        length=length,
        chunk=chunk,
        elements=-(-sizes.depth // LANES),
    )
    constants, lanes = (is_sigmoid, has_states, dm is not None), (-(-heads // LANES),)
    di, df, dm_initial = run.launch(GATE_GRADIENT, (dtype, state), constants, arguments, lanes, (LANES,))
    return dq, dk, dv, di, df, dc_initial, dn_initial, dm_initial
