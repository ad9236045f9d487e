"""Plans of attention over sequences that stand one after the other: kernels/attention_varlen.metal."""

from __future__ import annotations

from typing import Any, NamedTuple

from metalcore.ops.base.attention import (
    CONSTANTS,
    HAS_SLOPES,
    KEEPS_REST,
    LANES,
    SLOPES_BY_BATCH,
    Sizes,
    capacity,
)
from metalcore.ops.base.index import narrowed
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FILE = "attention_varlen"
CHECK = Kernel(FILE, "attention_varlen_check")
FORWARD = Kernel(FILE, "attention_varlen_forward", CONSTANTS)
DELTA = Kernel(FILE, "attention_varlen_delta", CONSTANTS)
QUERY_GRADIENT = Kernel(FILE, "attention_varlen_query_gradient", CONSTANTS)
KEY_GRADIENT = Kernel(FILE, "attention_varlen_key_gradient", CONSTANTS)

_INPUTS = "Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? alibi_slopes, Tensor? seed"
_NUMBERS = "int most_q, int most_k, float dropout, float scale, float softcap, int left, int right"


class Inputs(NamedTuple):
    """The arrays of both schemas, in their order."""

    query: Any
    key: Any
    value: Any
    starts_q: Any
    starts_k: Any
    slopes: Any
    seed: Any


class Numbers(NamedTuple):
    """The numbers of both schemas, in their order."""

    most_q: int
    most_k: int
    dropout: float
    scale: float
    softcap: float
    left: int
    right: int


class Call:
    """What forward and backward have in common."""

    def __init__(self, run: Runtime, given: Inputs, numbers: Numbers, keeps_rest: bool) -> None:
        query, key, value, starts_q, starts_k, slopes, seed = given
        most_q, most_k, dropout, scale, softcap, left, right = numbers
        self.dtype = run.dtype(query)
        self.sequences = starts_q.shape[0] - 1
        total_q, heads, depth = query.shape
        (total_k, key_heads), width = key.shape[:2], value.shape[2]
        self.sizes = Sizes((), most_q, most_k, most_k, heads, key_heads, depth, width)
        self.starts = dict(starts_q=narrowed(run, starts_q), starts_k=narrowed(run, starts_k))
        self.arrays = dict(q=run.contiguous(query), k=run.contiguous(key), v=run.contiguous(value), seed=seed)
        self.arrays |= dict(slopes=None if slopes is None else run.contiguous(slopes), **self.starts)
        flags = KEEPS_REST if keeps_rest else 0
        if slopes is not None:
            flags |= HAS_SLOPES | (SLOPES_BY_BATCH if len(slopes.shape) > 1 else 0)
        self.totals = (total_q, total_k)
        few = Sizes((), total_q, most_k, most_k, heads, key_heads, depth, width).is_few(self.dtype)
        self.constants = (slopes is not None or softcap > 0 or dropout > 0, few, False)
        self.chosen = policy("attention", run.family, self.dtype)
        self.types = (self.dtype, capacity(run, self.dtype, self.sizes), self.chosen["is_tiled"])
        self.numbers = dict(total_q=total_q, total_k=total_k, heads=heads, heads_each=heads // max(1, key_heads))
        self.numbers |= dict(depth=depth, width=width, scale=scale, softcap=softcap, left=left, right=right)
        self.numbers |= dict(dropped=dropout, flags=flags)

    def grid(self, longest: int, heads: int) -> tuple[tuple[int, int, int], tuple[int]]:
        threads = min(self.chosen["threads"], max(1, -(-longest // LANES)) * LANES)
        return (-(-longest // threads), heads, self.sequences), (threads,)


@stage(f"({_INPUTS}, {_NUMBERS}, bool wants_gradient) -> (Tensor out, Tensor lse, Tensor stats, Tensor rest)")
def forward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    given, numbers, wants_gradient = Inputs(*values[:7]), Numbers(*values[7:-1]), values[-1]
    query, _, value, *_ = given
    dtype, exact = run.dtype(query), accumulator(run.dtype(query))
    keeps = wants_gradient and dtype not in ("float32", "float64")
    call = Call(run, given, numbers, keeps)
    total_q, total_k = call.totals
    checked = dict(call.starts, errors=Out((2, 3), "int64"), sequences=call.sequences)
    checked |= dict(total_q=total_q, total_k=total_k, most_q=numbers.most_q, most_k=numbers.most_k)
    (errors,) = run.launch(CHECK, (), (), checked, (2,), (LANES,))
    run.check_errors(errors, lambda place, found: _explain(place, found, call))
    total, heads = query.shape[:2]
    shape = (total, heads, value.shape[2])
    arguments = dict(call.arrays, out=Out(shape, dtype), rest=Out(shape if keeps else (0,), dtype))
    arguments |= dict(stats=Out((heads, total, 2), exact), lse=Out((heads, total), exact), **call.numbers)
    grid, group = call.grid(numbers.most_q, heads)
    out, rest, stats, lse = run.launch(FORWARD, call.types, call.constants, arguments, grid, group)
    return out, lse, stats, rest


@stage(
    f"(Tensor grad_out, Tensor grad_lse, {_INPUTS}, Tensor out, Tensor stats, Tensor rest, {_NUMBERS}, "
    "bool[] wanted) -> (Tensor dq, Tensor dk, Tensor dv)"
)
def backward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    (grad_out, grad_lse), given, (out, stats, rest) = values[:2], Inputs(*values[2:9]), values[9:12]
    numbers, wanted = Numbers(*values[12:-1]), values[-1]
    query, key, value, *_ = given
    dtype, exact = run.dtype(query), accumulator(run.dtype(query))
    keeps = len(rest.shape) > 1
    call = Call(run, given, numbers, keeps)
    heads, key_heads = query.shape[1], key.shape[1]
    inputs = dict(call.arrays, g=run.contiguous(grad_out), stats=run.contiguous(stats), **call.numbers)
    arguments = dict(inputs, out=run.contiguous(out), rest=run.contiguous(rest) if keeps else None)
    arguments |= dict(g_lse=run.contiguous(grad_lse), delta=Out((heads, query.shape[0], 2), exact))
    grid, group = call.grid(numbers.most_q, heads)
    (delta,) = run.launch(DELTA, call.types, call.constants, arguments, grid, group)
    inputs["delta"] = delta
    dq = dk = dv = run.empty((0,), dtype)
    if wanted[0]:
        arguments = dict(inputs, dq=Out(tuple(query.shape), dtype))
        (dq,) = run.launch(QUERY_GRADIENT, call.types, call.constants, arguments, grid, group)
    if wanted[1] or wanted[2]:
        grid, group = call.grid(numbers.most_k, key_heads)
        arguments = dict(inputs, dk=Out(tuple(key.shape), dtype), dv=Out(tuple(value.shape), dtype))
        dk, dv = run.launch(KEY_GRADIENT, call.types, call.constants, arguments, grid, group)
    return dq, dk, dv


def _explain(place: int, value: int, call: Call) -> str:
    which, at = divmod(place, call.sequences + 1)
    name, what = (("cu_seqlens_q", "q"), ("cu_seqlens_k", "k"))[which]
    most = (call.sizes.queries, call.sizes.keys)[which]
    return (
        f"flash_attn_varlen_func: {name} has {value} at {at}: it must begin with 0, ascend by at most "
        f"max_seqlen_{what}, {most}, and end with {call.totals[which]}, the tokens of {what}"
    )
