"""The plan of attention over paged caches: kernels/attention_paged.metal."""

from __future__ import annotations

from typing import Any

from metalcore.ops.base.attention import (
    DEEPEST,
    FAR,
    HAS_SINKS,
    HAS_SLOPES,
    JOIN,
    LANES,
    Sizes,
    capacity,
    split_count,
)
from metalcore.ops.base.check import check_float, dtype_name, refuse
from metalcore.ops.base.index import check_index, narrowed
from metalcore.ops.base.kv_cache import check_device
from metalcore.ops.base.launch import accumulator
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

_CONSTANTS = ("has_extras", "is_split", "is_whole", "is_exact", "is_parted")
CHECK = Kernel("attention_paged", "attention_paged_check")
DECODE = Kernel("attention_paged", "attention_paged_decode", _CONSTANTS)
FORWARD = Kernel("attention_paged", "attention_paged_forward", _CONSTANTS)


def check_caches(op: str, query: Any, key_cache: Any, value_cache: Any, is_parted: bool) -> tuple[int, int, int, int]:
    """Blocks, rows of a block, key heads, elements of a part (where is_parted) of caches that fit the query."""
    dtype = check_float(op, "query", query)
    if dtype == "float64":
        refuse(op, "query", "float32, float16 or bfloat16", "of dtype float64")
    if len(query.shape) != 3:
        refuse(op, "query", "of shape (tokens, heads, depth)", f"of shape {tuple(query.shape)}")
    _, heads, depth = query.shape
    for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        if dtype_name(cache) not in (dtype, "uint8"):
            refuse(op, name, f"of the query's dtype {dtype}, or uint8 (fp8)", f"of dtype {dtype_name(cache)}")
    if dtype_name(key_cache) != dtype_name(value_cache):
        refuse(op, "value_cache", f"of the key_cache's dtype {dtype_name(key_cache)}", dtype_name(value_cache))
    shape, other = tuple(key_cache.shape), tuple(value_cache.shape)
    if is_parted:
        if len(shape) != 5 or shape[2] * shape[4] != depth:
            refuse(op, "key_cache", f"of shape (blocks, heads, {depth} / x, block_size, x)", f"of shape {shape}")
        blocks, key_heads, _, block, part = shape
        like: tuple[Any, ...] = (blocks, key_heads, depth, block)
        if other != like:
            refuse(op, "value_cache", f"of shape {like}", f"of shape {other}")
    else:
        if len(shape) != 4 or shape[3] != depth:
            refuse(op, "key_cache", f"of shape (blocks, block_size, heads, {depth})", f"of shape {shape}")
        blocks, block, key_heads, part = *shape[:3], 1
        if len(other) != 4 or other[:3] != shape[:3]:
            refuse(op, "value_cache", f"of shape {(*shape[:3], 'width')}", f"of shape {other}")
    if not 1 <= depth <= DEEPEST or not 1 <= other[3 if not is_parted else 2] <= DEEPEST:
        refuse(op, "query", f"of a depth from 1 to {DEEPEST}, as value_cache", f"of shape {tuple(query.shape)}")
    if not key_heads or heads % key_heads:
        refuse(op, "key_cache", f"of heads that divide those of query, {heads}", f"of {key_heads}")
    if block < 1:
        refuse(op, "key_cache", "of blocks with at least one row", f"of shape {shape}")
    return blocks, block, key_heads, part


def check_tables(op: str, block_tables: Any, seq_lens: Any, starts: Any) -> int:
    """The number of sequences."""
    for name, array in (("block_tables", block_tables), ("seq_lens", seq_lens), ("cu_seqlens_q", starts)):
        check_index(op, name, array)
    sequences = seq_lens.shape[0] if len(seq_lens.shape) == 1 else -1
    if sequences < 0:
        refuse(op, "seq_lens", "of shape (sequences,)", f"of shape {tuple(seq_lens.shape)}")
    if len(block_tables.shape) != 2 or block_tables.shape[0] != sequences:
        refuse(op, "block_tables", f"of shape ({sequences}, most blocks)", f"of shape {tuple(block_tables.shape)}")
    if tuple(starts.shape) != (sequences + 1,):
        refuse(op, "cu_seqlens_q", f"of shape ({sequences + 1},)", f"of shape {tuple(starts.shape)}")
    return sequences


def attend(
    run: Runtime,
    op: str,
    arrays: tuple[Any, ...],
    numbers: tuple[Any, ...],
    is_parted: bool = False,
    out: Any = None,
) -> Any:
    """The result for every token, or written into `out`. `most_queries` and `longest`: no sequence has more
    queries and keys."""
    query, key_cache, value_cache, block_tables, seq_lens, starts, alibi_slopes, sinks = arrays
    scale, softcap, left, most_queries, longest, k_scale, v_scale = numbers
    blocks, block, key_heads, part = check_caches(op, query, key_cache, value_cache, is_parted)
    sequences = check_tables(op, block_tables, seq_lens, starts)
    named = {"query": query, "key_cache": key_cache, "value_cache": value_cache, "block_tables": block_tables}
    named |= {"seq_lens": seq_lens, "cu_seqlens_q": starts, "alibi_slopes": alibi_slopes, "sinks": sinks, "out": out}
    check_device(op, {name: array for name, array in named.items() if array is not None})
    dtype, cached, exact = run.dtype(query), run.dtype(key_cache), accumulator(run.dtype(query))
    total, heads, depth = query.shape
    width = depth if is_parted else value_cache.shape[-1]
    query, key_cache, value_cache = run.contiguous(query), run.contiguous(key_cache), run.contiguous(value_cache)
    indices = dict(starts=narrowed(run, starts), lengths=narrowed(run, seq_lens), tables=narrowed(run, block_tables))
    most = block_tables.shape[1]
    limits = (min(most * block, longest), most_queries, blocks)
    if not sequences and total:
        refuse(op, "query", "of no tokens where there are no sequences", f"{total}")
    if sequences:
        checked = dict(indices, errors=Out((1, 3), "int64"), sequences=sequences, total=total)
        checked |= dict(block=block, blocks=blocks, most=most, most_queries=most_queries, longest=longest)
        (errors,) = run.launch(CHECK, (), (), checked, (1,), (LANES,))
        run.check_errors(errors, lambda s, value: _explain(op, s, value, sequences, total, limits))
    each, chosen = heads // key_heads, policy("attention", run.family, dtype)
    sizes = Sizes((sequences,), most_queries, most * block, most * block, heads, key_heads, depth, width)
    rows = most_queries * each
    is_exact = sizes.is_few(dtype)
    is_short = rows <= chosen["short_rows"] and not is_exact
    threads = LANES if is_short else min(chosen["threads"], max(1, -(-rows // LANES)) * LANES)
    row_blocks = 1 if is_short else -(-rows // threads)
    splits = split_count(run, dtype, row_blocks * key_heads * sequences, most * block) if rows <= LANES else 1
    flags = (HAS_SLOPES if alibi_slopes is not None else 0) | (HAS_SINKS if sinks is not None else 0)
    result = Out((total, heads, width), dtype) if out is None else out
    arguments = dict(
        indices,
        q=query,
        k=key_cache,
        v=value_cache,
        slopes=alibi_slopes,
        sinks=sinks,
        out=Out((0,), dtype) if splits > 1 else result,
        parts=Out((total, heads, splits, width + 2) if splits > 1 else (0,), exact),
        total=total,
        heads=heads,
        heads_each=each,
        depth=depth,
        width=width,
        scale=scale,
        softcap=softcap,
        left=FAR if left < 0 else left,
        flags=flags,
        splits=splits,
        block=block,
        blocks=blocks,
        most=most,
        part=part,
        k_scale=k_scale,
        v_scale=v_scale,
    )
    room = capacity(run, dtype, sizes, "short_capacities" if is_short else "capacities")
    has_extras = bool(flags & HAS_SLOPES) or softcap > 0
    constants = (has_extras, splits > 1, is_short and depth == width == room, is_exact, is_parted)
    grid = (row_blocks * splits, key_heads, sequences if total else 0)
    kernel = DECODE if is_short else FORWARD
    found = run.launch(kernel, (dtype, cached, room), constants, arguments, grid, (threads,))
    if splits > 1:
        places = dict(rest=Out((0,), dtype), stats=Out((total, heads, 2), exact), lse=Out((total, heads), exact))
        arguments = dict(parts=found[-1], sinks=sinks, out=result, **places)
        arguments |= dict(queries=1, heads=heads, width=width, flags=flags, splits=splits)
        found = run.launch(JOIN, (dtype,), (False,), arguments, (1, heads, total), (LANES,))
    return found[0] if out is None else out


def _explain(op: str, s: int, value: int, sequences: int, total: int, limits: tuple[int, int, int]) -> str:
    room, most_queries, blocks = limits
    if s == sequences:
        return f"{op}: cu_seqlens_q must begin with 0 and end with {total}, the tokens of query, not {value}"
    return (
        f"{op}: sequence {s} with seq_lens {value} is wrong: it must have from 0 to "
        f"{room}, which its block table has room for and the call allows, blocks in 0 to {blocks - 1}, and "
        f"cu_seqlens_q must ascend, by at most {most_queries}"
    )
