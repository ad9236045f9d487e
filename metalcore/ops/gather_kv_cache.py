"""Keys and values of sequences out of a paged cache, as one array: kernels/gather_kv_cache.metal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metalcore.ops.base.check import check_array, dtype_name, refuse
from metalcore.ops.base.index import check_index
from metalcore.ops.base.kv_cache import LARGEST_ROW, check_device, check_scales
from metalcore.ops.base.launch import blocks_for
from metalcore.ops.base.op import FLOATS, Op, stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

NOUN = "gather_kv_cache"
STARTS = Kernel("gather_kv_cache", "sequence_starts")
CHECK = Kernel("gather_kv_cache", "check_tables")
GATHER = Kernel("gather_kv_cache", "gather_tokens")


def gather_kv_cache(
    key_cache: Any,
    value_cache: Any,
    block_tables: Any,
    seq_lens: Any,
    *,
    total: int | None = None,
    dtype: Any = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Any:
    """The keys and values of sequences, all tokens of the first one, then those of the next: two arrays
    (total, heads, head_dim), from caches that are (blocks, block_size, heads, head_dim).

    Row s of `block_tables` (sequences, most blocks) lists the blocks of sequence s, and `seq_lens` how many tokens it
    has; what stands behind them is not looked at. `total` is the sum of `seq_lens`: where it is not given, they are
    summed here, for which a GPU is waited for (and torch.compile cannot do it). A length that the table has no room
    for, a block out of range or a wrong total raises IndexRangeError; on a GPU such tokens are NaN
    (METALCORE_CHECK_GPU=1 makes them an error).

    Caches of uint8 hold fp8 (e4m3): `dtype` must say what is wanted ("float16", or a dtype of the framework), and
    values are multiplied by `k_scale` and `v_scale`.

    >>> import numpy as np, metalcore
    >>> cache = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1)
    >>> keys, values = metalcore.gather_kv_cache(cache, -cache, np.array([[2, 0], [1, 9]]), np.array([3, 1]))
    >>> keys.ravel().tolist()
    [4.0, 5.0, 0.0, 2.0]
    """
    kind = check_array(NOUN, "key_cache", key_cache)
    if dtype is not None:
        wanted = np.dtype(dtype).name if isinstance(dtype, type) else str(dtype).rpartition(".")[2]
    elif kind == "uint8":
        refuse(NOUN, "dtype", "given where caches are uint8, which holds fp8", "None")
    else:
        wanted = kind
    if total is None:
        check_index(NOUN, "seq_lens", seq_lens)
        # A negative length is named by the kernel that looks at lengths.
        total = max(0, int(seq_lens.sum().item())) if math.prod(seq_lens.shape) else 0
    scales = check_scales(NOUN, k_scale, v_scale)
    return OP(key_cache, value_cache, block_tables, seq_lens, total, wanted, *scales)


@stage(
    "(Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, SymInt total, str dtype, "
    "float k_scale, float v_scale) -> (Tensor key, Tensor value)"
)
def forward(
    run: Runtime,
    key_cache: Any,
    value_cache: Any,
    block_tables: Any,
    seq_lens: Any,
    total: int,
    dtype: str,
    k_scale: float,
    v_scale: float,
) -> tuple[Any, ...]:
    check(key_cache, value_cache, block_tables, seq_lens, total, dtype)
    blocks, block_size, heads, dim = key_cache.shape
    sequences, most = block_tables.shape
    tables, lengths = run.contiguous(block_tables), run.contiguous(seq_lens)
    room = most * block_size
    starts, errors = run.launch(
        STARTS,
        (run.dtype(lengths),),
        (),
        dict(
            lengths=lengths,
            starts=Out((sequences + 1,), "int64"),
            errors=Out((2, 3), "int64"),
            sequences=sequences,
            most=room,
            total=total,
        ),
        (1,),
        (32,),
    )
    run.check_errors(errors, lambda place, value: _explain_length(place, value, room, total))
    index = run.dtype(tables)
    if sequences:
        arguments = dict(tables=tables, starts=starts, errors=Out((sequences, 3), "int64"))
        arguments |= dict(most=most, block_size=block_size, blocks=blocks)
        (errors,) = run.launch(CHECK, (index,), (), arguments, (sequences,), (32,))
        run.check_errors(errors, lambda place, value: _explain_block(place, value, most, blocks))
    groups, each = blocks_for(run, "indexed", dtype, total)
    widths = dict(key_width=heads * dim, value_width=heads * value_cache.shape[3])
    key, value = run.launch(
        GATHER,
        (run.dtype(key_cache), dtype, index),
        (),
        dict(
            key_cache=run.contiguous(key_cache),
            value_cache=run.contiguous(value_cache),
            tables=tables,
            starts=starts,
            key=Out((total, heads, dim), dtype),
            value=Out((total, heads, value_cache.shape[3]), dtype),
            sequences=sequences,
            most=most,
            block_size=block_size,
            blocks=blocks,
            **widths,
            total=total,
            each=each,
            k_scale=k_scale,
            v_scale=v_scale,
        ),
        (groups,),
        (policy("indexed", run.family, dtype)["threads"],),
    )
    return key, value


def check(key_cache: Any, value_cache: Any, block_tables: Any, seq_lens: Any, total: int, dtype: str) -> None:
    """Dtypes and shapes; part of the plan, so that they are looked at once."""
    kind = dtype_name(key_cache)
    if kind not in FLOATS and kind != "uint8":
        refuse(NOUN, "key_cache", "float32, float16, bfloat16 or uint8 (fp8)", f"of dtype {kind}")
    if check_array(NOUN, "value_cache", value_cache) != kind:
        refuse(NOUN, "value_cache", f"of the dtype of key_cache, {kind}", f"of dtype {dtype_name(value_cache)}")
    allowed = FLOATS if kind == "uint8" else (kind,)
    if dtype not in allowed:
        refuse(NOUN, "dtype", f"{' or '.join(allowed)} for caches of {kind}", dtype)
    shape = tuple(key_cache.shape)
    if len(shape) != 4:
        refuse(NOUN, "key_cache", "(blocks, block_size, heads, head_dim)", f"of shape {shape}")
    if len(value_cache.shape) != 4 or tuple(value_cache.shape[:3]) != shape[:3]:
        expected = f"({shape[0]}, {shape[1]}, {shape[2]}, head_dim), as key_cache"
        refuse(NOUN, "value_cache", expected, f"of shape {tuple(value_cache.shape)}")
    check_index(NOUN, "block_tables", block_tables)
    check_index(NOUN, "seq_lens", seq_lens)
    if len(block_tables.shape) != 2:
        refuse(NOUN, "block_tables", "(sequences, blocks)", f"of shape {tuple(block_tables.shape)}")
    if tuple(seq_lens.shape) != (block_tables.shape[0],):
        expected = f"of shape ({block_tables.shape[0]},), as block_tables has rows"
        refuse(NOUN, "seq_lens", expected, f"of shape {tuple(seq_lens.shape)}")
    if not shape[1]:
        refuse(NOUN, "key_cache", "of blocks that hold a token or more", f"of shape {shape}")
    if total < 0 or total >= LARGEST_ROW:
        refuse(NOUN, "total", f"in 0 to {LARGEST_ROW - 1}", total)
    named = {"key_cache": key_cache, "value_cache": value_cache, "block_tables": block_tables}
    check_device(NOUN, {**named, "seq_lens": seq_lens})


def _explain_length(place: int, value: int, room: int, total: int) -> str:
    if place < 0:
        return f"{NOUN}: seq_lens has {value} for sequence {-1 - place}: its row of block_tables holds 0 to {room}"
    return f"{NOUN}: total must be the sum of seq_lens, {value}, not {total}"


def _explain_block(place: int, value: int, most: int, blocks: int) -> str:
    sequence, at = divmod(place, most)
    where = f"it must be in 0 to {blocks - 1}" if blocks else "there are no blocks"
    return f"{NOUN}: block_tables has the block {value} at place {at} of sequence {sequence}, out of range: {where}"


OP = Op(NOUN, "keys and values of sequences out of a paged cache, one sequence after the other", forward)
