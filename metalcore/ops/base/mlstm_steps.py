"""Plans of mLSTM row by row, with what roundings lost: kernels/mlstm_steps.metal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.mlstm_parts import DELTA_PLANES, LANES, NORM_PLANES, Pass, Prepared, Sizes, gates_of, room_for
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

NORMALISER = Kernel("mlstm_steps", "mlstm_step_normaliser", ("has_states", "is_exact"))
STEPS = Kernel("mlstm_steps", "mlstm_steps", ("has_states", "is_backwards", "is_of_keys", "keeps_states", "is_exact"))
DELTA = Kernel("mlstm_steps", "mlstm_step_delta", ("is_exact",))
GATES = Kernel("mlstm_steps", "mlstm_step_gates", ("is_sigmoid", "has_states", "has_last"))
STEP = Kernel("mlstm_step", "mlstm_step")


def prepare(
    run: Runtime,
    sizes: Sizes,
    q: Any,
    k: Any,
    i: Any,
    f: Any,
    n: Any,
    m: Any,
    eps: float,
    is_sigmoid: bool,
) -> Prepared:
    dtype, wide = run.dtype(q), accumulator(run.dtype(q))
    gates, keep, m_last = gates_of(run, sizes, i, f, m, is_sigmoid)
    outputs = dict(
        norms=Out((NORM_PLANES, sizes.heads, sizes.length), wide), n_last=Out((*sizes.leading, sizes.depth), wide)
    )
    arguments = dict(q=q, k=k, gates=gates, n_initial=n, **outputs)
    arguments |= dict(heads=sizes.heads, length=sizes.length, depth=sizes.depth, scale=sizes.scale, eps=eps)
    types = (dtype, wide if n is None else run.dtype(n), room_for(run, dtype, sizes.depth))
    norms, n_last = run.launch(NORMALISER, types, (n is not None, dtype == wide), arguments, (sizes.heads,), (LANES,))
    return Prepared(gates, keep, m_last, n_last, norms)


def steps(
    run: Runtime,
    sizes: Sizes,
    way: Pass,
    found: Prepared,
    deltas: Any,
    kept: Any,
    state: str,
    is_exact: bool = True,
) -> list[Any]:
    """Rows, what they lost by rounding, the last state and normaliser, kept states, products with gradients."""
    dtype, wide = run.dtype(way.lanes), accumulator(run.dtype(way.lanes))
    depth, width = way.sides(sizes)
    columns = -(-width // LANES)
    rows, nothing = (*sizes.leading, sizes.length, width), Out((0,), wide)
    keeps, uses = way.keeps_states and not way.is_backwards, way.keeps_states and way.is_backwards
    arguments = dict(
        way.arrays(),
        gates=found.gates,
        norms=found.norms,
        deltas=deltas,
        out=Out(rows, dtype),
        out_low=nothing if way.is_of_keys or way.is_backwards else Out(rows, wide),
        last=Out((0,) if way.is_of_keys else (*sizes.leading, depth, width), state),
        n_last=Out((*sizes.leading, width) if way.is_of_keys and way.is_backwards else (0,), state),
        states=Out((sizes.heads, sizes.length + 1, columns, depth + 1, 2, LANES), wide) if keeps else nothing,
        kept_states=kept,
        shares=Out((sizes.heads, sizes.length + 1, columns, 4), wide) if uses else nothing,
        heads=sizes.heads,
        length=sizes.length,
        depth=depth,
        width=width,
        scale=sizes.scale,
    )
    given = wide if way.initial[0] is None else run.dtype(way.initial[0])
    constants = (way.initial[0] is not None, way.is_backwards, way.is_of_keys, way.keeps_states, is_exact)
    types = (dtype, given, state, room_for(run, dtype, depth))
    launched: list[Any] = run.launch(STEPS, types, constants, arguments, (columns, sizes.heads), (LANES,))
    return launched


def step(run: Runtime, sizes: Sizes, arrays: Mapping[str, Any], eps: float) -> tuple[Any, ...]:
    """One row with its states, q, k, v, i, f, c, n and m, in one launch: h and the new states."""
    dtype, wide = run.dtype(arrays["q"]), accumulator(run.dtype(arrays["q"]))
    state = (*sizes.leading, sizes.depth)
    arguments = dict(arrays, h=Out((*sizes.leading, 1, sizes.width), dtype), c_new=Out((*state, sizes.width), wide))
    arguments |= dict(n_new=Out(state, wide), m_new=Out(sizes.leading, wide))
    arguments |= dict(depth=sizes.depth, width=sizes.width, scale=sizes.scale, eps=eps)
    grid = (-(-sizes.width // (2 * LANES)), sizes.heads)
    return tuple(run.launch(STEP, (dtype, run.dtype(arrays["c"])), (), arguments, grid, (LANES,)))


def gradients(
    run: Runtime,
    sizes: Sizes,
    again: Pass,
    passes: tuple[Pass, Pass, Pass],
    found: Prepared,
    i: Any,
    f: Any,
    dm: Any,
    eps: float,
    state: str,
    is_sigmoid: bool,
) -> tuple[Any, ...]:
    """`again`: forward once more, for what its result lost."""
    of_q, of_k, of_v = passes
    dtype, wide = run.dtype(i), accumulator(run.dtype(i))
    rows, has_states = sizes.heads * sizes.length, again.initial[0] is not None
    h, h_low, *_ = steps(run, sizes, again, found, None, None, wide)
    deltas = Out((DELTA_PLANES, sizes.heads, sizes.length), wide)
    arguments = dict(
        h=h, h_low=h_low, dh=of_q.read, norms=found.norms, deltas=deltas, rows=rows, width=sizes.width, eps=eps
    )
    (deltas,) = run.launch(DELTA, (dtype,), (True,), arguments, (rows,), (LANES,))
    dq, _, _, _, states, _ = steps(run, sizes, of_q, found, deltas, None, state)
    dk, _, _, dn_initial, _, shares = steps(run, sizes, of_k, found, deltas, states, state)
    dv, _, dc_initial, *_ = steps(run, sizes, of_v, found, deltas, None, state)
    arguments = dict(i=i, f=f, gates=found.gates, deltas=deltas, shares=shares, dm_last=dm)
    arguments |= dict(di=Out(tuple(i.shape), dtype), df=Out(tuple(f.shape), dtype))
    arguments |= dict(dm_initial=Out(sizes.leading if has_states else (0,), state))
    arguments |= dict(heads=sizes.heads, length=sizes.length, blocks=-(-sizes.depth // LANES))
    grid = (-(-sizes.heads // LANES),)
    constants = (is_sigmoid, has_states, dm is not None)
    di, df, dm_initial = run.launch(GATES, (dtype, state), constants, arguments, grid, (LANES,))
    return dq, dk, dv, di, df, dc_initial, dn_initial, dm_initial
