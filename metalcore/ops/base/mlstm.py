"""Plans of mLSTM, row by row, by chunks or as attention, and what its ops declare alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from metalcore.ops.base import mlstm_chunks, mlstm_steps
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.mlstm_parts import LANES, Pass, Sizes
from metalcore.ops.base.op import Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

PARALLEL = Kernel("mlstm_parallel", "mlstm_parallel")

_ROWS = "Tensor q, Tensor k, Tensor v, Tensor i, Tensor f"
_STATES = "Tensor? c_initial, Tensor? n_initial, Tensor? m_initial"
_NUMBERS = "float eps, int chunk, bool is_sigmoid"
_ROW_GRADIENTS = "Tensor dq, Tensor dk, Tensor dv, Tensor di, Tensor df"


@stage(f"({_ROWS}, {_STATES}, {_NUMBERS}) -> (Tensor h, Tensor c, Tensor n, Tensor m)")
def forward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    *arrays, eps, chunk, is_sigmoid = values
    q, k, v, i, f, c, n, m = (None if x is None else run.contiguous(x) for x in arrays)
    sizes, dtype = Sizes.of(q, v, chunk), run.dtype(q)
    if sizes.by_rows and sizes.length == 1 and m is not None and not sizes.is_tiny(dtype):
        return mlstm_steps.step(run, sizes, dict(q=q, k=k, v=v, i=i, f=f, c=c, n=n, m=m), eps)
    wide, is_few = accumulator(dtype), sizes.is_few(dtype)
    way = Pass(v, q, k, None, False, False, False, (c, None))
    if sizes.by_rows or is_few:
        found = mlstm_steps.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        h, _, c_last, *_ = mlstm_steps.steps(run, sizes, way, found, None, None, wide, is_few)
    else:
        found = mlstm_chunks.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        h, c_last, *_ = mlstm_chunks.scan(run, sizes, way, found.scores, found, None, None, wide)
    return h, c_last, found.n_last, found.m_last


@stage(f"({_ROWS}, {_NUMBERS}) -> Tensor h")
def forward_parallel(
    run: Runtime, q: Any, k: Any, v: Any, i: Any, f: Any, eps: float, chunk: int, is_sigmoid: bool
) -> tuple[Any, ...]:
    sizes = Sizes.of(q, v, chunk)
    dtype = run.dtype(q)
    if sizes.is_few(dtype):
        return forward(run, q, k, v, i, f, None, None, None, eps, chunk, is_sigmoid)[:1]
    q, k, v, i, f = (run.contiguous(x) for x in (q, k, v, i, f))
    whole = replace(sizes, chunk=max(1, sizes.length))
    found = mlstm_steps.prepare(run, whole, q, k, i, f, None, None, eps, is_sigmoid)
    room, threads = mlstm_chunks.row_room(run, dtype, max(sizes.depth, sizes.width))
    numbers = dict(heads=sizes.heads, length=sizes.length, depth=sizes.depth, width=sizes.width, scale=sizes.scale)
    arguments = dict(q=q, k=k, v=v, gates=found.gates, norms=found.norms, h=Out(tuple(v.shape), dtype), **numbers)
    grid = (-(-sizes.length // LANES), sizes.heads)
    return tuple(run.launch(PARALLEL, (dtype, *room), (), arguments, grid, (threads,)))


@stage(f"(Tensor grad_h, {_ROWS}, Tensor h, {_NUMBERS}, bool[] wanted) -> ({_ROW_GRADIENTS})")
def backward_parallel(run: Runtime, *values: Any) -> tuple[Any, ...]:
    grad_h, *rows, h, eps, chunk, is_sigmoid, wanted = values
    states = (None, None, None)
    numbers = (eps, chunk, is_sigmoid, (*wanted, False, False, False))
    return backward(run, grad_h, *states, *rows, *states, h, *numbers)[:5]


@stage(
    f"(Tensor grad_h, Tensor grad_c, Tensor grad_n, Tensor grad_m, {_ROWS}, {_STATES}, Tensor h, {_NUMBERS}, "
    f"bool[] wanted) -> ({_ROW_GRADIENTS}, Tensor dc_initial, Tensor dn_initial, Tensor dm_initial)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    *arrays, eps, chunk, is_sigmoid, wanted = values
    dh, dc, dn, dm, q, k, v, i, f, c, n, m, h = (None if x is None else run.contiguous(x) for x in arrays)
    sizes = Sizes.of(q, v, chunk)
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
        found = mlstm_chunks.prepare(run, sizes, q, k, i, f, n, m, eps, is_sigmoid)
        if run.dtype(h) != accumulator(run.dtype(h)):  # once more, for what its rounding lost
            wide = accumulator(run.dtype(h))
            h, *_ = mlstm_chunks.scan(run, sizes, again, found.scores, found, None, None, wide, wide)
        given = mlstm_chunks.gradients(run, sizes, passes, found, h, i, f, dm, c is not None, eps, state, is_sigmoid)
    is_there = (*(True,) * 5, *(x is not None for x in (c, n, m)))
    none = run.empty((0,), run.dtype(q))
    return tuple(x if want and there else none for x, want, there in zip(given, wanted, is_there, strict=True))


def with_states(noun: str, summary: str) -> Op:
    """An mLSTM op that takes and returns states."""
    return Op(noun, summary, forward, backward, autocast="lower", exact=("c_initial", "n_initial", "m_initial"))
