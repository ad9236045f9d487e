"""The backward plan of dense attention: kernels/attention_gradient.metal and attention_joint_gradient.metal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from metalcore.ops.base.attention import (
    CONSTANTS,
    INPUTS,
    LANES,
    NUMBERS,
    Call,
    Inputs,
    Numbers,
    Sizes,
    capacity,
    group_of,
    lanes_or_matrices,
    mask_shape,
)
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime

DELTA = Kernel("attention_gradient", "attention_delta", CONSTANTS)
QUERY_GRADIENT = Kernel("attention_gradient", "attention_query_gradient", CONSTANTS)
KEY_GRADIENT = Kernel("attention_gradient", "attention_key_gradient", CONSTANTS)
JOINT_GRADIENT = Kernel("attention_joint_gradient", "attention_joint_gradient", CONSTANTS)
BIAS_GRADIENT = Kernel("attention_gradient", "attention_bias_gradient", CONSTANTS)
MATRIX_DELTA = Kernel("attention_matrix_gradient", "attention_matrix_delta", CONSTANTS)
MATRIX_QUERY_GRADIENT = Kernel("attention_matrix_gradient", "attention_matrix_query_gradient", CONSTANTS)
MATRIX_KEY_GRADIENT = Kernel("attention_matrix_gradient", "attention_matrix_key_gradient", CONSTANTS)
BIAS_SUM = Kernel("attention_gradient", "attention_bias_sum")
SINK_GRADIENT = Kernel("attention_gradient", "attention_sink_gradient")


@stage(
    f"(Tensor grad_out, Tensor grad_lse, {INPUTS}, Tensor out, Tensor stats, Tensor rest, {NUMBERS}, "
    "bool[] wanted) -> (Tensor dquery, Tensor dkey, Tensor dvalue, Tensor dattn_mask, Tensor dsinks)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    (grad_out, grad_lse), given, (out, stats, rest) = values[:2], Inputs(*values[2:9]), values[9:12]
    numbers, wanted = Numbers(*values[12:-1]), values[-1]
    keeps = rest.shape[0] > 0 and len(rest.shape) > 1
    call = Call(run, given, numbers, -1, keeps)
    dtype, exact, sizes, chosen, is_exact = call.dtype, call.exact, call.sizes, call.chosen, call.is_exact
    query, key, value, attn_mask, _, sinks, seed = given
    by_matrices = chosen["has_matrices"] and not is_exact and dtype != "float64"
    constants = (call.has_extras, is_exact, False)
    stats = run.contiguous(stats)
    inputs = dict(call.arguments, g=run.contiguous(grad_out), seed=seed, stats=stats)
    inputs |= dict(dropped=numbers.dropout, flags=call.flags)
    threads, each = group_of(chosen, sizes.queries, by_matrices)
    grid = (-(-sizes.queries // each), sizes.heads, sizes.batch)
    arguments = dict(inputs, out=run.contiguous(out), rest=run.contiguous(rest) if keeps else None)
    arguments |= dict(g_lse=run.contiguous(grad_lse), delta=Out((*call.places, 2), exact))
    kernel, types = lanes_or_matrices(run, dtype, sizes, DELTA, MATRIX_DELTA, by_matrices)
    (delta,) = run.launch(kernel, types, constants, arguments, grid, (threads,))
    inputs["delta"] = delta
    dq = dk = dv = run.empty((0,), dtype)
    is_joint = 0 < chosen["joint_heads"] <= sizes.batch * sizes.key_heads and not is_exact
    if is_joint and wanted[0] and (wanted[1] or wanted[2]):
        arguments = dict(inputs, dq=Out(tuple(query.shape), dtype))
        arguments |= dict(dk=Out(tuple(key.shape), dtype), dv=Out(tuple(value.shape), dtype))
        arguments |= dict(lower=Out(tuple(query.shape) if dtype != exact else (0,), dtype))
        types = (dtype, capacity(run, dtype, sizes), chosen["is_tiled"])
        grid = (sizes.key_heads, sizes.batch, 1)
        dq, dk, dv, _ = run.launch(JOINT_GRADIENT, types, constants, arguments, grid, (LANES,))
        wanted = (False, False, False, *wanted[3:])
    if wanted[0]:
        arguments = dict(inputs, dq=Out(tuple(query.shape), dtype))
        kernel, types = lanes_or_matrices(run, dtype, sizes, QUERY_GRADIENT, MATRIX_QUERY_GRADIENT, by_matrices)
        (dq,) = run.launch(kernel, types, constants, arguments, grid, (threads,))
    if wanted[1] or wanted[2]:
        threads, each = group_of(chosen, sizes.keys, by_matrices)
        grid = (-(-sizes.keys // each), sizes.key_heads, sizes.batch)
        kernel, types = lanes_or_matrices(run, dtype, sizes, KEY_GRADIENT, MATRIX_KEY_GRADIENT, by_matrices)
        arguments = dict(inputs, dk=Out(tuple(key.shape), dtype), dv=Out(tuple(value.shape), dtype))
        dk, dv = run.launch(kernel, types, constants, arguments, grid, (threads,))
    dmask = dsinks = run.empty((0,), dtype)
    if wanted[3] and call.extras.bias is not None:
        types = (dtype, capacity(run, dtype, sizes), chosen["is_tiled"])
        dmask = _bias_gradient(run, sizes, inputs, types, attn_mask, is_exact)
    if wanted[4] and sinks is not None:
        arguments = dict(sinks=run.contiguous(sinks), stats=stats, delta=delta, dsinks=Out((sizes.heads,), exact))
        arguments |= dict(queries=sizes.queries, heads=sizes.heads, batches=sizes.batch)
        (dsinks,) = run.launch(SINK_GRADIENT, (exact,), (), arguments, (sizes.heads,), (LANES,))
    return dq, dk, dv, dmask, dsinks


def _bias_gradient(
    run: Runtime,
    sizes: Sizes,
    inputs: Mapping[str, Any],
    types: tuple[Any, ...],
    bias: Any,
    is_exact: bool,
) -> Any:
    """First for every query and key, then summed over those that share an element."""
    dtype = types[0]
    batches, heads, queries, keys = mask_shape(bias)
    whole = Out((batches, heads, sizes.queries, sizes.keys), accumulator(dtype))
    arguments = {name: value for name, value in inputs.items() if name != "mask"}
    arguments |= dict(dbias=whole, batches=batches, head_count=heads, all_batches=sizes.batch)
    grid = (-(-sizes.queries // LANES), -(-sizes.keys // LANES), batches * heads)
    (found,) = run.launch(BIAS_GRADIENT, types, (True, is_exact, False), arguments, grid, (LANES,))
    if dtype == accumulator(dtype) and (queries, keys) == (sizes.queries, sizes.keys):
        return found.reshape(bias.shape)
    count = math.prod(bias.shape)
    arguments = dict(whole=found, dbias=Out(tuple(bias.shape), dtype))
    arguments |= dict(queries=sizes.queries, keys=sizes.keys, query_count=queries, key_count=keys, count=count)
    (summed,) = run.launch(BIAS_SUM, (dtype,), (), arguments, (-(-count // LANES),), (LANES,))
    return summed
