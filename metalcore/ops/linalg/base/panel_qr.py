"""QR by panels of 32 columns, a threadgroup for each, and products for the rest: kernels/linalg/panel_qr.metal."""

from __future__ import annotations

from typing import Any, NamedTuple

from metalcore.ops.linalg.base.matrix import LANES, Batch
from metalcore.ops.linalg.base.product import Block, multiply, update
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

PANEL = Kernel("linalg/panel_qr", "qr_panel", ("is_packed", "copies"))
PANEL_Q = Kernel("linalg/panel_qr", "qr_panel_q")
SCALED = Kernel("linalg/panel_qr", "qr_scaled")
UPPER = Kernel("linalg/panel_qr", "qr_upper")
IDENTITY = Kernel("linalg/panel_qr", "qr_identity")
COPIED_ROWS = 32  # rows that a threadgroup copies where the matrix cannot be changed in place
Q_ROWS = 128  # rows of Q that a threadgroup forms


class Reflectors(NamedTuple):
    """A product of up to 32 reflectors, I - V T V^T: it changes the rows from `row` on. V has 32 columns and T is
    32 x 32, with zeros where there are fewer reflectors."""

    v: Any
    t: Any
    row: int


class Panel(NamedTuple):
    """What the panel's kernel makes; `out` is R, or the matrix with R and v in the panel's place."""

    out: Any
    v: Any
    t: Any
    tau: Any


def threads(run: Runtime, dtype: str, rows: int) -> tuple[int]:
    """Of a threadgroup with a panel: more for more rows."""
    most: int = policy("linalg_panel_qr", run.family, dtype)["threads"]
    return (min(most, max(1, rows // 16) * LANES),)


def panel(
    run: Runtime, a: Block, batch: Batch, *, head: Any = None, head_rows: int = 0, is_packed: bool = False
) -> Panel:
    """The QR factorisation of a block of up to 32 columns of each matrix. `head`: an array whose first `head_rows` rows
    stand above the block."""
    dtype, rows = run.dtype(a.array), a.rows + head_rows
    least, number = min(rows, a.columns), batch.number
    begin, pitch = a.begin, a.pitch
    stride = a.array.shape[-2] * a.array.shape[-1]
    copies = is_packed and not run.writes_in_place
    extra = -(-a.array.shape[-2] // COPIED_ROWS) if copies else 0
    out: Any = Out((number, least, a.columns), dtype)
    if is_packed:
        out = Out(tuple(a.array.shape), dtype) if copies else a.array
    outs = dict(
        out=out,
        v=Out((*batch.leading, rows, LANES), dtype),
        t=Out((*batch.leading, LANES, LANES), dtype),
        tau=Out((*batch.leading, least), dtype),
    )
    head_stride = 0 if head is None else head.shape[-2] * head.shape[-1]
    numbers = dict(row_count=rows, column_count=a.columns, begin=begin)
    numbers |= dict(pitch=pitch, stride=stride, head_rows=head_rows, head_stride=head_stride)
    above = a.array if head is None else head
    arguments = dict(a=a.array, head=above, **outs, **numbers)
    made = run.launch(
        PANEL, (dtype,), (is_packed, copies), arguments, (1 + extra, number, 1), threads(run, dtype, rows)
    )
    return Panel(*made) if len(made) == 4 else Panel(out, *made)


def panel_q(
    run: Runtime, found: Panel, shape: tuple[int, ...], reflectors: int, above: Any = None, each: int = 1
) -> Any:
    """The first columns of the panel's Q, as an array of this shape. `above`: Q times [above; 0]; there are
    matrices of `reflectors` rows in `above`, the first of each 1 + `each` of which is not used."""
    dtype, rows, columns = run.dtype(found.v), shape[-2], shape[-1]
    number = 1
    for size in shape[:-2]:
        number *= size
    numbers = dict(row_count=rows, reflectors=reflectors, column_count=columns)
    numbers |= dict(block_rows=Q_ROWS, has_e=int(above is not None), e_group=each)
    arguments = dict(v=found.v, t=found.t, e=found.v if above is None else above, q=Out(shape, dtype), **numbers)
    groups = (-(-rows // Q_ROWS), number, 1)
    (q,) = run.launch(PANEL_Q, (dtype,), (), arguments, groups, threads(run, dtype, Q_ROWS))
    return q


def apply(run: Runtime, found: Reflectors, array: Any, column: int, columns: int, *, transpose: bool) -> Any:
    """I - V T V^T, or its transpose, times columns of an array, from row `found.row` on. The array is changed in place
    where the runtime can."""
    if columns <= 0:
        return array
    c = Block(array, found.row, column, found.v.shape[-2], columns)
    v = Block.of(found.v)
    w = multiply(run, v, c, transpose_a=True)
    w = multiply(run, Block.of(found.t), Block.of(w), transpose_a=transpose)
    return update(run, c, v, Block.of(w), alpha=-1.0)


def factorise(run: Runtime, work: Any) -> tuple[Any, Any, list[Reflectors]]:
    """R and the v below it in a scaled copy of the matrices, the scales, and the reflectors, panel by panel."""
    batch, dtype = Batch.of(work), run.dtype(work)
    least, size = min(batch.rows, batch.columns), batch.rows * batch.columns
    outs = dict(out=Out(tuple(work.shape), dtype), scales=Out(batch.leading, dtype))
    most: int = policy("linalg_panel_qr", run.family, dtype)["threads"]
    work, scales = run.launch(SCALED, (dtype,), (), dict(a=work, **outs, size=size), (batch.number,), (most,))
    kept = []
    for j in range(0, least, LANES):
        width = min(LANES, least - j)
        found = panel(run, Block(work, j, j, batch.rows - j, width), batch, is_packed=True)
        kept.append(Reflectors(found.v, found.t, j))
        work = apply(run, kept[-1], found.out, j + width, batch.columns - j - width, transpose=True)
    return work, scales, kept


def upper(run: Runtime, work: Any, scales: Any, rows: int, *, keeps_lower: bool = False) -> Any:
    """The first rows of R."""
    batch, dtype = Batch.of(work), run.dtype(work)
    numbers = dict(row_count=batch.rows, column_count=batch.columns, r_rows=rows, keeps_lower=int(keeps_lower))
    arguments = dict(a=work, scales=scales, r=Out(batch.shape(rows, batch.columns), dtype), **numbers)
    group = policy("linalg_panel_qr", run.family, dtype)["row_threads"]
    (r,) = run.launch(UPPER, (dtype,), (), arguments, (rows, batch.number, 1), (group,))
    return r


def identity(run: Runtime, batch: Batch, dtype: str, columns: int) -> Any:
    """The first columns of the identity, for each matrix."""
    arguments = dict(q=Out(batch.shape(batch.rows, columns), dtype), row_count=batch.rows, column_count=columns)
    group = policy("linalg_panel_qr", run.family, dtype)["row_threads"]
    (q,) = run.launch(IDENTITY, (dtype,), (), arguments, (batch.rows, batch.number, 1), (group,))
    return q


def form_q(run: Runtime, kept: list[Reflectors], batch: Batch, dtype: str, columns: int) -> Any:
    """The first columns of the product of all reflectors, from the last to the first: what is zero is left out."""
    q = identity(run, batch, dtype, columns)
    for found in reversed(kept):
        q = apply(run, found, q, found.row, columns - found.row, transpose=False)
    return q
