"""Reflectors as LAPACK keeps them: kernels/linalg/householder.metal and reflectors.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.op import Op, stage
from metalcore.ops.linalg.base import panel_qr
from metalcore.ops.linalg.base.lanes_qr import in_lanes, suits_lanes
from metalcore.ops.linalg.base.matrix import LANES, Batch, capacity, check_matrix, lane_groups, promoted
from metalcore.ops.linalg.base.reflectors import compact, copied
from metalcore.ops.linalg.base.result import named
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

__all__ = ["geqrf", "householder_product", "ormqr"]
PRODUCT = Kernel("linalg/householder", "householder_lanes")
TAUS = Kernel("linalg/householder", "householder_taus")
GRADIENT = Kernel("linalg/reflectors", "householder_gradient")


def geqrf(input: Any) -> Any:
    """(a, tau): R above the diagonal of `a`, Householder's vectors below it, as LAPACK and torch.geqrf return them.

    >>> import numpy as np, metalcore
    >>> a, tau = metalcore.linalg.geqrf(np.array([[3.0], [4.0]], np.float32))
    >>> a.round(3).tolist(), tau.round(3).tolist()
    ([[-5.0], [0.5]], [1.600000023841858])
    """
    check_matrix("linalg.geqrf", "input", input)
    return named("geqrf", "a tau", GEQRF(input))


def householder_product(A: Any, tau: Any) -> Any:
    """The first columns of H_0 H_1 ..., where H_i = I - tau_i v_i v_i^T and v_i stands below the diagonal of A."""
    _check("linalg.householder_product", "A", A, tau)
    if A.shape[-2] < A.shape[-1]:
        refuse("linalg.householder_product", "A", "of at least as many rows as columns", f"of shape {tuple(A.shape)}")
    return HOUSEHOLDER_PRODUCT(A, tau)


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q `other`, or `other` Q where not `left`, with Q the whole product of the reflectors in `input` and `tau`, or
    with its transpose."""
    op = "linalg.ormqr"
    _check(op, "input", input, tau)
    given, dtype = check_matrix(op, "other", other), dtype_name(input)
    if given != dtype:
        refuse(op, "other", f"of input's dtype, {dtype}", f"of dtype {given}")
    side = -2 if left else -1
    if len(other.shape) != len(input.shape) or tuple(other.shape[:-2]) != tuple(input.shape[:-2]):
        refuse(op, "other", f"a batch of {tuple(input.shape[:-2])} matrices", f"of shape {tuple(other.shape)}")
    if other.shape[side] != input.shape[-2]:
        what = "rows" if left else "columns"
        refuse(op, "other", f"of {input.shape[-2]} {what}, as input has rows", f"of shape {tuple(other.shape)}")
    return ORMQR(input, tau, other, bool(left), bool(transpose))


def _check(op: str, argument: str, array: Any, tau: Any) -> None:
    dtype = check_matrix(op, argument, array)
    given = check_float(op, "tau", tau)
    if given != dtype:
        refuse(op, "tau", f"of {argument}'s dtype, {dtype}", given)
    if tuple(tau.shape[:-1]) != tuple(array.shape[:-2]) or len(tau.shape) != len(array.shape) - 1:
        refuse(op, "tau", f"of shape {(*array.shape[:-2], 'k')}", f"of shape {tuple(tau.shape)}")
    if tau.shape[-1] > min(array.shape[-2:]):
        refuse(op, "tau", f"at most {min(array.shape[-2:])} numbers for each matrix", f"of shape {tuple(tau.shape)}")


@stage("(Tensor input) -> (Tensor a, Tensor tau)")
def geqrf_forward(run: Runtime, input: Any) -> tuple[Any, ...]:
    given, work = run.dtype(input), promoted(run, input)
    batch, dtype = Batch.of(work), run.dtype(work)
    least = min(batch.rows, batch.columns)
    if suits_lanes(run, batch, dtype):
        packed, _, tau = in_lanes(run, work, batch, dtype, "packed")
    else:
        packed, scales, _ = panel_qr.factorise(run, work)
        packed = panel_qr.upper(run, packed, scales, batch.rows, keeps_lower=True)
        arguments = dict(a=packed, tau=Out(batch.shape(least), dtype))
        arguments |= dict(row_count=batch.rows, column_count=batch.columns, reflectors=least)
        groups = (-(-least // LANES), batch.number, 1)
        (tau,) = run.launch(TAUS, (dtype,), (), arguments, groups, (LANES,))
    return run.cast(packed, given), run.cast(tau, given)


@stage("(Tensor A, Tensor tau) -> Tensor Q")
def product_forward(run: Runtime, A: Any, tau: Any) -> tuple[Any, ...]:
    given, work, taus = run.dtype(A), promoted(run, A), promoted(run, tau)
    batch, dtype = Batch.of(work), run.dtype(work)
    if batch.rows <= LANES:
        numbers = dict(count=batch.number, row_count=batch.rows, column_count=batch.columns, reflectors=taus.shape[-1])
        arguments = dict(a=work, tau=taus, q=Out(tuple(work.shape), dtype), **numbers)
        types = (dtype, capacity(batch.rows))
        (q,) = run.launch(PRODUCT, types, (), arguments, lane_groups(batch.number), (LANES,))
    else:
        q = panel_qr.form_q(run, compact(run, work, taus), batch, dtype, batch.columns)
    return (run.cast(q, given),)


@stage("(Tensor grad_Q, Tensor A, Tensor tau, Tensor Q) -> (Tensor dA, Tensor dtau)")
def product_backward(run: Runtime, grad_Q: Any, A: Any, tau: Any, Q: Any) -> tuple[Any, ...]:
    grads = _gradients(run, *(promoted(run, x) for x in (A, tau, Q, grad_Q)), is_reversed=False)
    return tuple(run.cast(x, run.dtype(A)) for x in grads[:2])


def _gradients(run: Runtime, a: Any, tau: Any, q: Any, dq: Any, *, is_reversed: bool) -> tuple[Any, Any, Any]:
    """Of the reflectors, of tau, and of the C in Q = H_0 ... C, or in H_k-1 ... H_0 C."""
    batch, dtype, columns = Batch.of(a), run.dtype(a), q.shape[-1]
    same, pair = Out(tuple(q.shape), dtype), Out(batch.shape(2, columns), dtype)
    outs = dict(p=same, g=same, u=pair, grad_a=Out(tuple(a.shape), dtype), grad_tau=Out(tuple(tau.shape), dtype))
    numbers = dict(row_count=batch.rows, a_columns=batch.columns, q_columns=columns)
    numbers |= dict(reflectors=tau.shape[-1], is_reversed=int(is_reversed))
    arguments = dict(a=a, tau=tau, q=q, grad=dq, **outs, **numbers)
    _, dc, _, da, dtau = run.launch(GRADIENT, (dtype,), (), arguments, (batch.number,), (LANES,))
    return da, dtau, dc


@stage("(Tensor input, Tensor tau, Tensor other, bool left, bool transpose) -> Tensor out")
def ormqr_forward(run: Runtime, input: Any, tau: Any, other: Any, left: bool, transpose: bool) -> tuple[Any, ...]:
    given = run.dtype(input)
    if not left:
        other, transpose = other.swapaxes(-1, -2), not transpose
    kept = compact(run, promoted(run, input), promoted(run, tau))
    work = promoted(run, other)
    work = copied(run, work) if run.writes_in_place else work  # products change it
    for found in kept if transpose else reversed(kept):
        work = panel_qr.apply(run, found, work, 0, work.shape[-1], transpose=transpose)
    return (run.cast(work if left else run.contiguous(work.swapaxes(-1, -2)), given),)


@stage(
    "(Tensor grad_out, Tensor input, Tensor tau, bool left, bool transpose, Tensor out)"
    " -> (Tensor dinput, Tensor dtau, Tensor dother)"
)
def ormqr_backward(
    run: Runtime, grad_out: Any, input: Any, tau: Any, left: bool, transpose: bool, out: Any
) -> tuple[Any, ...]:
    if not left:
        grad_out, out, transpose = grad_out.swapaxes(-1, -2), out.swapaxes(-1, -2), not transpose
    arrays = [promoted(run, x) for x in (input, tau, out, grad_out)]
    da, dtau, dc = _gradients(run, *arrays, is_reversed=transpose)
    dc = dc if left else run.contiguous(dc.swapaxes(-1, -2))
    return tuple(run.cast(x, run.dtype(input)) for x in (da, dtau, dc))


GEQRF = Op(
    "linalg_geqrf", "R and the reflectors of A = Q R, as LAPACK keeps them", geqrf_forward, namesake="torch.geqrf"
)
HOUSEHOLDER_PRODUCT = Op(
    "linalg_householder_product",
    "Q from reflectors",
    product_forward,
    product_backward,
    namesake="torch.linalg.householder_product",
)
ORMQR = Op("linalg_ormqr", "Q from reflectors, times a matrix", ormqr_forward, ormqr_backward, namesake="torch.ormqr")
OPS = (GEQRF, HOUSEHOLDER_PRODUCT, ORMQR)
