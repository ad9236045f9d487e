"""The forward plan of dense attention: kernels/attention.metal and attention_decode.metal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from metalcore.ops.base.check import refuse
from metalcore.ops.base.launch import accumulator
from metalcore.ops.base.op import stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

FORWARD = Kernel("attention", "attention_forward", ("has_extras", "is_split", "is_exact", "is_parted"))
MATRIX_FORWARD = Kernel("attention_matrix", "attention_matrix_forward", FORWARD.constants)
DECODE = Kernel("attention_decode", "attention_decode", ("has_extras", "is_split", "is_whole", "is_exact", "is_parted"))
CONSTANTS = ("has_extras", "is_exact", "is_parted")
JOIN = Kernel("attention", "attention_join", ("is_exact",))

# As in kernels/attention_scores.h and attention.h
HAS_BIAS, HAS_MASK, HAS_SLOPES, SLOPES_BY_BATCH, HAS_SINKS = 1, 2, 4, 8, 16
QUERY_ROWS_FIRST, KEY_ROWS_FIRST, IS_PACKED, KEEPS_REST = 32, 64, 128, 256
FAR = 1 << 29  # further than any key lies
LANES = 32
MATRIX_ROWS = 8
MOST_SPLITS = 64
DEEPEST = 256
_FEW = 1 << 21  # multiplications

INPUTS = "Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor? alibi_slopes, Tensor? sinks, Tensor? seed"
NUMBERS = (
    "float dropout, bool is_causal, float scale, float softcap, int left, int right, bool query_rows_first, "
    "bool key_rows_first"
)


@dataclass(frozen=True)
class Sizes:
    """Shapes of a call. Arrays have any leading shape, then heads, rows, depth, or rows, heads, depth."""

    leading: tuple[int, ...]
    queries: int
    keys: int
    key_rows: int  # rows of memory; those from `keys` on are not looked at
    heads: int
    key_heads: int
    depth: int
    width: int

    @staticmethod
    def of(query: Any, key: Any, value: Any, query_rows_first: bool, key_rows_first: bool, keys: int) -> Sizes:
        *leading, a, b, depth = query.shape
        c, d, _ = key.shape[-3:]
        queries, heads = (a, b) if query_rows_first else (b, a)
        rows, key_heads = (c, d) if key_rows_first else (d, c)
        last = rows if keys < 0 else keys
        return Sizes(tuple(leading), queries, last, rows, heads, key_heads, depth, value.shape[-1])

    @property
    def batch(self) -> int:
        return math.prod(self.leading)

    @property
    def heads_each(self) -> int:
        return max(1, self.heads // max(1, self.key_heads))  # kernels divide by it

    def arguments(self) -> dict[str, int]:
        """What kernels of dense attention are told of it."""
        counts = dict(queries=self.queries, keys=self.keys, heads=self.heads, heads_each=self.heads_each)
        return dict(counts, depth=self.depth, width=self.width)

    def is_few(self, dtype: str, has_sinks: bool = False) -> bool:
        """Whether sums are made with more care, at several times their time. Of few results torch's own error may
        happen to be near nothing, and the gradient of a sink is one number for all rows of a head."""
        count = self.batch * self.heads * self.queries * self.keys * self.depth
        return dtype == "float32" and count < (4 * _FEW if has_sinks else _FEW)

    def reach(self, is_causal: bool, left: int, right: int) -> tuple[int, int]:
        """A query sees the keys from itself + low to itself + high. Causal is aligned at the first query and key, a
        window at the last ones."""
        shift = self.keys - self.queries
        low = -FAR if left < 0 else shift - left
        high = FAR if right < 0 else shift + right
        return max(-FAR, low), min(high, 0) if is_causal else min(FAR, high)


STRIDES = ("mask_batch", "mask_head", "mask_query", "mask_key")


@dataclass(frozen=True)
class Extras:
    """What may be added to scores, as kernels take it."""

    bias: Any
    mask: Any
    slopes: Any
    strides: dict[str, int]  # of bias or mask
    flags: int

    def arguments(self) -> dict[str, Any]:
        """All but the flags, by the names that kernels have for them."""
        return dict(bias=self.bias, mask=self.mask, slopes=self.slopes, **self.strides)

    @staticmethod
    def of(run: Runtime, sizes: Sizes, attn_mask: Any, slopes: Any) -> Extras:
        flags, bias, mask, strides = 0, None, None, dict.fromkeys(STRIDES, 0)
        if attn_mask is not None:
            found, (batches, heads, queries, keys) = run.contiguous(attn_mask), mask_shape(attn_mask)
            if batches not in (1, sizes.batch):
                expected = f"of 1 or {sizes.batch} batch elements"
                refuse("scaled_dot_product_attention", "attn_mask", expected, f"of shape {tuple(attn_mask.shape)}")
            steps = (heads * queries * keys, queries * keys, keys, 1)
            counts = (batches > 1, heads > 1, queries > 1, keys > 1)  # what has one element for all does not move
            strides = {name: step * moves for name, step, moves in zip(STRIDES, steps, counts, strict=True)}
            if run.dtype(found) == "bool":
                mask, flags = found, HAS_MASK
            else:
                bias, flags = found, HAS_BIAS
        if slopes is not None:
            slopes = run.contiguous(slopes)
            flags |= HAS_SLOPES | (SLOPES_BY_BATCH if len(slopes.shape) > 1 else 0)
        return Extras(bias, mask, slopes, strides, flags)


def mask_shape(attn_mask: Any) -> tuple[int, int, int, int]:
    """Batch, heads, queries, keys of a mask; 1 where it does not have the dimension or is broadcast."""
    *leading, heads, queries, keys = (1,) * (4 - len(attn_mask.shape)) + tuple(attn_mask.shape)
    return math.prod(leading), heads, queries, keys


def capacity(run: Runtime, dtype: str, sizes: Sizes, name: str = "capacities") -> int:
    fits: list[int] = policy("attention", run.family, dtype)[name]
    return min(n for n in fits if n >= max(sizes.depth, sizes.width))


def group_of(chosen: Any, rows: int, by_matrices: bool) -> tuple[int, int]:
    """Threads of a threadgroup, and rows that it takes: a lane has a row, or a simdgroup has eight."""
    each = MATRIX_ROWS if by_matrices else LANES
    simdgroups = min(chosen["threads"] // LANES, max(1, -(-rows // each)))
    return simdgroups * LANES, simdgroups * each


def lanes_or_matrices(
    run: Runtime, dtype: str, sizes: Sizes, lanes: Kernel, matrices: Kernel, by_matrices: bool
) -> tuple[Kernel, tuple[Any, ...]]:
    """The kernel and its template's arguments."""
    room = capacity(run, dtype, sizes)
    if by_matrices:
        return matrices, (dtype, room)
    return lanes, (dtype, room, policy("attention", run.family, dtype)["is_tiled"])


def split_count(run: Runtime, dtype: str, tasks: int, keys: int) -> int:
    chosen = policy("attention", run.family, dtype)
    if not 0 < tasks < chosen["tasks"]:
        return 1
    most: int = min(-(-chosen["tasks"] // tasks), keys // chosen["split_keys"], MOST_SPLITS)
    return max(1, most)


class Inputs(NamedTuple):
    """The arrays of both schemas, in their order."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    alibi_slopes: Any
    sinks: Any
    seed: Any


class Numbers(NamedTuple):
    """The numbers of both schemas, in their order."""

    dropout: float
    is_causal: bool
    scale: float
    softcap: float
    left: int
    right: int
    query_rows_first: bool
    key_rows_first: bool


class Call:
    """What forward and backward have in common."""

    def __init__(self, run: Runtime, given: Inputs, numbers: Numbers, keys: int, keeps_rest: bool) -> None:
        query, key, value, attn_mask, slopes, sinks, _ = given
        dropout, is_causal, scale, softcap, left, right, query_rows_first, key_rows_first = numbers
        self.dtype, self.exact = run.dtype(query), accumulator(run.dtype(query))
        self.sizes = sizes = Sizes.of(query, key, value, query_rows_first, key_rows_first, keys)
        self.extras = Extras.of(run, sizes, attn_mask, slopes)
        self.flags = self.extras.flags | (HAS_SINKS if sinks is not None else 0) | (KEEPS_REST if keeps_rest else 0)
        self.flags |= (QUERY_ROWS_FIRST if query_rows_first else 0) | (KEY_ROWS_FIRST if key_rows_first else 0)
        self.has_extras = bool(self.extras.flags) or softcap > 0 or dropout > 0
        self.is_exact = sizes.is_few(self.dtype, sinks is not None)
        self.chosen = policy("attention", run.family, self.dtype)
        low, high = sizes.reach(is_causal, left, right)
        self.arguments = dict(q=run.contiguous(query), k=run.contiguous(key), v=run.contiguous(value))
        self.arguments |= {**self.extras.arguments(), **sizes.arguments()}
        self.arguments |= dict(scale=scale, softcap=softcap, low=low, high=high)

    @property
    def places(self) -> tuple[int, ...]:
        """The shape of what there is one of for a row."""
        return (*self.sizes.leading, self.sizes.heads, self.sizes.queries)


@stage(f"({INPUTS}, {NUMBERS}, int keys, bool wants_gradient) -> (Tensor out, Tensor lse, Tensor stats, Tensor rest)")
def forward(run: Runtime, *values: Any) -> tuple[Any, ...]:
    given, numbers, (keys, wants_gradient) = Inputs(*values[:7]), Numbers(*values[7:15]), values[15:]
    keeps = wants_gradient and run.dtype(given.query) not in ("float32", "float64")
    call = Call(run, given, numbers, keys, keeps)
    dtype, exact, sizes, chosen = call.dtype, call.exact, call.sizes, call.chosen
    flags, is_exact = call.flags, call.is_exact
    sinks = None if given.sinks is None else run.contiguous(given.sinks)
    rows = sizes.queries * sizes.heads_each
    # A gradient computes scores again, in the order of FORWARD: those of another order would not fit the sums.
    is_short = rows <= chosen["short_rows"] and not (numbers.dropout or wants_gradient or is_exact)
    is_packed = not is_short and sizes.heads_each > 1 and rows <= LANES
    if is_packed:
        flags |= IS_PACKED
    rows = rows if is_packed else sizes.queries
    by_matrices = chosen["has_matrices"] and not is_short and not is_exact and dtype != "float64"
    threads, each = (LANES, LANES) if is_short else group_of(chosen, rows, by_matrices)
    blocks = 1 if is_short else -(-rows // each)
    heads = sizes.key_heads if is_short or is_packed else sizes.heads
    splits = split_count(run, dtype, blocks * heads * sizes.batch, sizes.keys)

    shape, places = (*given.query.shape[:-1], sizes.width), call.places
    results = dict(
        out=Out(shape, dtype),
        rest=Out(shape if keeps else (0,), dtype),
        stats=Out((*places, 2), exact),
        lse=Out(places, exact),
    )
    nothing = {name: Out((0,), out.dtype) for name, out in results.items()}
    arguments = dict(call.arguments, sinks=sinks, **(nothing if splits > 1 else results))
    arguments |= dict(parts=Out((*places, splits, sizes.width + 2) if splits > 1 else (0,), exact))
    arguments |= dict(key_rows=sizes.key_rows, flags=flags, splits=splits)
    grid = (blocks * splits, heads, sizes.batch if sizes.queries else 0)
    if is_short:
        room = capacity(run, dtype, sizes, "short_capacities")
        constants = (call.has_extras, splits > 1, sizes.depth == sizes.width == room, False, False)
        found = run.launch(DECODE, (dtype, room), constants, arguments, grid, (LANES,))
    else:
        kernel, types = lanes_or_matrices(run, dtype, sizes, FORWARD, MATRIX_FORWARD, by_matrices)
        arguments |= dict(seed=given.seed, dropped=numbers.dropout)
        found = run.launch(kernel, types, (call.has_extras, splits > 1, is_exact, False), arguments, grid, (threads,))
    if splits > 1:
        arguments = dict(parts=found[-1], sinks=sinks, **results)
        arguments |= dict(queries=sizes.queries, heads=sizes.heads, width=sizes.width, flags=flags, splits=splits)
        found = run.launch(JOIN, (dtype,), (False,), arguments, (sizes.queries, sizes.heads, sizes.batch), (LANES,))
    out, rest, stats, lse = found[:4]
    return out, lse, stats, rest
