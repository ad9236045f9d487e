"""What the ops on paged caches share: checks of caches and their indices, and the launches of kernels/kv_cache.metal
and kernels/cache_blocks.metal."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from metalcore.errors import IndexRangeError
from metalcore.ops.base.check import check_array, dtype_name, refuse
from metalcore.ops.base.index import check_index
from metalcore.ops.base.launch import blocks_for
from metalcore.ops.base.op import FLOATS, Op, Stage
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.policy import policy
from metalcore.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from metalcore.runtimes.host_copies import Pairs

CHECK_SLOTS = Kernel("kv_cache", "check_slots")
CACHE_TOKENS = Kernel("kv_cache", "cache_tokens", ("is_rows",))
CACHE_WITH_TOKENS = Kernel("kv_cache", "cache_with_tokens", ("is_rows",))
CHECK_PAIRS = Kernel("cache_blocks", "check_pairs")
COPY_PAIRS = Kernel("cache_blocks", "copy_pairs")
WITH_PAIRS = Kernel("cache_blocks", "with_pairs")
FP8 = ("fp8", "fp8_e4m3")
LARGEST_ROW = 1 << 31  # elements; kernels count those of a block in 32 bits


def check_cache(op: str, argument: str, cache: Any) -> str:
    """The dtype's name of a cache that is written: one block of memory that may be changed, or an mlx array."""
    dtype = check_array(op, argument, cache)
    if dtype not in FLOATS and dtype != "uint8":
        refuse(op, argument, "float32, float16, bfloat16 or uint8 (fp8)", f"of dtype {dtype}")
    if not len(cache.shape):
        refuse(op, argument, "an array of blocks", "of no dimension")
    if math.prod(cache.shape[1:]) >= LARGEST_ROW:
        refuse(op, argument, f"of blocks with less than {LARGEST_ROW} elements", f"of shape {tuple(cache.shape)}")
    flags = getattr(cache, "flags", None)  # NumPy's
    if not (flags.c_contiguous if flags is not None else getattr(cache, "is_contiguous", _yes)()):
        refuse(op, argument, "contiguous, as it is written in place", f"a strided view of shape {tuple(cache.shape)}")
    if flags is not None and not flags.writeable:
        refuse(op, argument, "an array that may be written", "a read-only one")
    return dtype


def _yes() -> bool:
    """For mlx, whose arrays are not written."""
    return True


def check_device(op: str, arrays: dict[str, Any]) -> None:
    """All of them are on one device."""
    (first, where), *others = [(name, getattr(array, "device", None)) for name, array in arrays.items()]
    for name, device in others:
        if device != where:
            refuse(op, name, f"on the device of {first}, {where}", f"on {device}")


def check_scale(op: str, argument: str, scale: Any) -> float:
    """A number above 0, or an array that holds one."""
    if hasattr(scale, "shape") and math.prod(scale.shape) == 1:
        scale = scale.item()
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < math.inf:
        refuse(op, argument, "a number above 0", repr(scale))
    return float(scale)


def check_scales(op: str, k_scale: Any, v_scale: Any) -> tuple[float, float]:
    return check_scale(op, "k_scale", k_scale), check_scale(op, "v_scale", v_scale)


def declare(noun: str, summary: str, is_rows: bool) -> Op:
    """The op reshape_and_cache or reshape_and_cache_flash (`is_rows`)."""
    schema = (
        "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
        "str kv_cache_dtype, float k_scale, float v_scale) -> ()"
    )
    return Op(noun, summary, Stage(schema, lambda run, *arguments: cache_tokens(run, noun, arguments, is_rows)))


def cache_tokens(run: Runtime, op: str, arguments: tuple[Any, ...], is_rows: bool) -> tuple[Any, ...]:
    """The plan of reshape_and_cache and reshape_and_cache_flash (`is_rows`), with the arguments of their schema."""
    key, value, key_cache, value_cache, slot_mapping, _, k_scale, v_scale = arguments
    block_size = _check_tokens(op, arguments, is_rows)
    tokens, dtype, cached, index = key.shape[0], run.dtype(key), run.dtype(key_cache), run.dtype(slot_mapping)
    slots = key_cache.shape[0] * block_size
    key_width, value_width = math.prod(key.shape[1:]), math.prod(value.shape[1:])
    key_x, value_x = (key_width, value_width) if is_rows else (key_cache.shape[4], 1)
    key, value, slot_mapping = run.contiguous(key), run.contiguous(value), run.contiguous(slot_mapping)
    blocks, each = blocks_for(run, "indexed", dtype, tokens)
    threads = policy("indexed", run.family, dtype)["threads"]
    if tokens:
        checked = dict(slots=slot_mapping, errors=Out((blocks, 3), "int64"), tokens=tokens, count=slots, each=each)
        (errors,) = run.launch(CHECK_SLOTS, (index,), (), checked, (blocks,), (threads,))
        run.check_errors(errors, lambda token, slot: _explain_slot(op, token, slot, slots))
    types = (dtype, cached, index)
    given = dict(key=key, value=value, slots=slot_mapping, tokens=tokens, key_width=key_width, value_width=value_width)
    given |= dict(key_x=key_x, value_x=value_x, block_size=block_size, k_scale=k_scale, v_scale=v_scale)
    if not run.keeps_arguments:
        run.launch(
            CACHE_TOKENS,
            types,
            (is_rows,),
            dict(given, key_cache=key_cache, value_cache=value_cache, count=slots, each=each),
            (blocks,),
            (threads,),
        )
        return ()
    made = run.launch(
        CACHE_WITH_TOKENS,
        types,
        (is_rows,),
        dict(
            given,
            old_keys=run.contiguous(key_cache),
            old_values=run.contiguous(value_cache),
            key_cache=Out(tuple(key_cache.shape), cached),
            value_cache=Out(tuple(value_cache.shape), cached),
        ),
        (key_cache.shape[0] if block_size and key_width + value_width else 0,),
        (threads,),
    )
    return tuple(made)


def _check_tokens(op: str, arguments: tuple[Any, ...], is_rows: bool) -> int:
    """Dtypes and shapes; the size of a block."""
    key, value, key_cache, value_cache, slot_mapping, kind, _, _ = arguments
    dtype = check_array(op, "key", key)
    if dtype not in FLOATS:
        refuse(op, "key", "float32, float16 or bfloat16", f"of dtype {dtype}")
    if check_array(op, "value", value) != dtype:
        refuse(op, "value", f"of the key's dtype {dtype}", f"of dtype {dtype_name(value)}")
    check_index(op, "slot_mapping", slot_mapping)
    if kind != "auto" and kind not in FP8:
        refuse(op, "kv_cache_dtype", "auto, fp8 or fp8_e4m3", repr(kind))
    expected = dtype if kind == "auto" else "uint8"
    for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        if check_cache(op, name, cache) != expected:
            refuse(op, name, f"{expected} where kv_cache_dtype is {kind}", f"of dtype {dtype_name(cache)}")
    if len(key.shape) != 3:
        refuse(op, "key", "(tokens, heads, head_dim)", f"of shape {tuple(key.shape)}")
    tokens, heads, dim = key.shape
    if len(value.shape) != 3 or tuple(value.shape[:2]) != (tokens, heads):
        refuse(op, "value", f"({tokens}, {heads}, head_dim), as the key", f"of shape {tuple(value.shape)}")
    if tuple(slot_mapping.shape) != (tokens,):
        refuse(op, "slot_mapping", f"of shape ({tokens},), one slot a token", f"of shape {tuple(slot_mapping.shape)}")
    named = {"key": key, "value": value, "key_cache": key_cache, "value_cache": value_cache}
    check_device(op, {**named, "slot_mapping": slot_mapping})
    given = tuple(key_cache.shape)
    if is_rows:
        if len(given) != 4 or given[2:] != (heads, dim):
            refuse(op, "key_cache", f"of shape (blocks, block_size, {heads}, {dim})", f"of shape {given}")
        block_size: int = given[1]
        like = (*given[:3], value.shape[2])
    else:
        if len(given) != 5 or given[1] != heads or given[2] * given[4] != dim:
            refuse(op, "key_cache", f"(blocks, {heads}, {dim} / x, block_size, x)", f"of shape {given}")
        block_size = given[3]
        like = (given[0], heads, value.shape[2], block_size)
    if tuple(value_cache.shape) != like:
        refuse(op, "value_cache", f"of shape {like}, by value and key_cache", f"of shape {tuple(value_cache.shape)}")
    return block_size


def _explain_slot(op: str, token: int, slot: int, slots: int) -> str:
    return f"{op}: slot_mapping has the slot {slot} for token {token}: it must be in 0 to {slots - 1}, or -1 to skip it"


def check_mapping(op: str, mapping: Any) -> None:
    check_index(op, "block_mapping", mapping)
    if len(mapping.shape) != 2 or mapping.shape[1] != 2:
        refuse(op, "block_mapping", "of shape (pairs, 2): source and target", f"of shape {tuple(mapping.shape)}")


def host_pairs(run: Runtime, op: str, caches: dict[str, Any], mapping: Any) -> Pairs | None:
    """The pairs of a mapping on the host that goes with caches on another device; None where a kernel looks at it."""
    check_mapping(op, mapping)
    pairs = None if run.host_copies is None else run.host_copies.pairs(mapping)
    check_device(op, caches if pairs is not None else {**caches, "block_mapping": mapping})
    return pairs


def check_host_pairs(op: str, pairs: Pairs, sources: int, targets: int, is_one_array: bool) -> None:
    """What the kernel check_pairs finds, in its order."""
    readers = Counter(a for a, _ in pairs) if is_one_array else Counter()
    written: set[int] = set()
    for p, (a, b) in enumerate(pairs):
        kinds = (not 0 <= a < sources, not 0 <= b < targets, b in written, readers[b] > (a == b))
        if any(kinds):
            kind = kinds.index(True)
            raise IndexRangeError(_explain_pair(op, 4 * p + kind, b if kind else a, sources, targets))
        written.add(b)


def check_pairs(run: Runtime, op: str, mapping: Any, sources: int, targets: int, is_one_array: bool) -> None:
    """Raises for a pair that is out of range, or is not independent of the others."""
    pairs = mapping.shape[0]
    if not pairs:
        return
    blocks, each = blocks_for(run, "indexed", "float32", pairs)
    (errors,) = run.launch(
        CHECK_PAIRS,
        (run.dtype(mapping),),
        (),
        dict(
            mapping=mapping,
            errors=Out((blocks, 3), "int64"),
            pairs=pairs,
            source_blocks=sources,
            target_blocks=targets,
            is_one_array=int(is_one_array),
            each=each,
        ),
        (blocks,),
        (policy("indexed", run.family, "float32")["threads"],),
    )
    run.check_errors(errors, lambda place, block: _explain_pair(op, place, block, sources, targets))


def _explain_pair(op: str, place: int, block: int, sources: int, targets: int) -> str:
    pair, kind = divmod(place, 4)
    if kind < 2:
        what, count = ("source", sources) if kind == 0 else ("target", targets)
        where = f"it must be in 0 to {count - 1}" if count else "there are no blocks"
        return f"{op}: block_mapping has the {what} {block} in pair {pair}, which is out of range: {where}"
    why = "an earlier pair writes too" if kind == 2 else "is the source of another pair"
    return f"{op}: block_mapping writes block {block} in pair {pair}, which {why}: pairs must be independent"


def copy_pairs(run: Runtime, source: Any, target: Any, pairs: Pairs) -> None:
    """Blocks of `source` into `target` by pairs that were checked on the host."""
    assert run.host_copies is not None  # they came from it
    run.host_copies.copy(run.contiguous(source), target, pairs)


def move_blocks(run: Runtime, source: Any, target: Any, mapping: Any) -> tuple[Any, ...]:
    """Blocks of `source` into `target`: in place, or as one new array where the caller's cannot be written."""
    dtype, size, pairs = run.dtype(target), math.prod(target.shape[1:]), mapping.shape[0]
    chosen = policy("indexed", run.family, dtype)
    each, threads, types = chosen["copy_chunk"], (chosen["threads"],), (dtype, run.dtype(mapping))
    chunks, source_blocks, target_blocks = -(-size // each), source.shape[0], target.shape[0]
    if not run.keeps_arguments:
        arguments = dict(source=run.contiguous(source), mapping=mapping, target=target, size=size)
        arguments |= dict(source_blocks=source_blocks, target_blocks=target_blocks, each=each)
        run.launch(COPY_PAIRS, types, (), arguments, (chunks, pairs), threads)
        return ()
    out = Out(tuple(target.shape), dtype)
    held = dict(source=run.contiguous(source), old=run.contiguous(target), mapping=mapping)
    return tuple(
        run.launch(
            WITH_PAIRS,
            types,
            (),
            dict(**held, out=out, pairs=pairs, size=size, source_blocks=source_blocks, each=each),
            (chunks, target_blocks),
            threads,
        )
    )
