"""metalcore.nn.PagedCache: a cache against lists of tensors, forks, copy-on-write, a full cache, errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError, MetalcoreError, PagedCacheFull, UnknownSequence  # noqa: E402
from metalcore.nn import PagedCache  # noqa: E402

HEADS, DIM, VALUE_DIM = 2, 4, 3


def rows(tokens: int, dtype: Any = torch.float32) -> tuple[Any, Any]:
    return torch.randn(tokens, HEADS, DIM).to(dtype), torch.randn(tokens, HEADS, VALUE_DIM).to(dtype)


def made(blocks: int = 8, block_size: int = 4, **more: Any) -> Any:
    return PagedCache(blocks, block_size, HEADS, DIM, VALUE_DIM, **more)


def held(cache: Any, sequences: list[int], **named: Any) -> list[tuple[Any, Any]]:
    """Keys and values of each sequence, by gather_kv_cache."""
    tables, lengths = cache.block_tables(sequences), cache.seq_lens(sequences)
    assert tables.dtype == lengths.dtype == torch.int32
    found = metalcore.gather_kv_cache(cache.key_cache, cache.value_cache, tables, lengths, **named)
    return list(zip(*(x.split(lengths.tolist()) for x in found), strict=True))


def test_append_in_pieces() -> None:
    cache = made()
    a, b = cache.allocate(), cache.allocate()
    keys, values = rows(11)
    for begin, end in ((0, 3), (3, 4), (4, 4), (4, 10), (10, 11)):
        cache.append(a, keys[begin:end], values[begin:end])
    cache.append(b, keys[:5], values[:5])
    assert (cache.length(a), cache.length(b), cache.free_blocks) == (11, 5, 3)
    for (k, v), n in zip(held(cache, [a, b]), (11, 5), strict=True):
        assert torch.equal(k, keys[:n]) and torch.equal(v, values[:n])
    assert cache.block_tables([b, a]).shape == (2, 3) and cache.seq_lens([]).shape == (0,)
    assert cache.block_tables([]).shape == (0, 0)
    assert repr(cache) == "PagedCache(block_size=4, heads=2, head_dim=4, 2 sequences in 5 of 8 blocks)"


def test_fork_copies_on_write() -> None:
    cache = made()
    a = cache.allocate()
    keys, values = rows(6)
    cache.append(a, keys, values)
    b = cache.fork(a)
    assert cache.free_blocks == 6 and torch.equal(*cache.block_tables([a, b]))  # nothing is copied yet
    more = rows(1), rows(3)
    cache.append(b, *more[0])  # the last block is shared and not full
    cache.append(a, *more[1])  # it is a's alone now
    tables = cache.block_tables([a, b]).tolist()
    assert tables[0][0] == tables[1][0] and tables[0][1] != tables[1][1]
    for (k, v), (key, value) in zip(held(cache, [a, b]), (more[1], more[0]), strict=True):
        assert torch.equal(k, torch.cat([keys, key])) and torch.equal(v, torch.cat([values, value]))
    cache.free(a)
    assert torch.equal(held(cache, [b])[0][0], torch.cat([keys, more[0][0]]))
    cache.free(b)
    assert cache.free_blocks == 8


def test_a_full_block_is_shared_for_good() -> None:
    cache = made()
    a = cache.allocate()
    cache.append(a, *rows(8))
    b = cache.fork(a)
    cache.append(b, *rows(1))
    assert cache.free_blocks == 5
    assert cache.block_tables([a, b])[:, :2].unique(dim=0).shape == (1, 2)


def test_full() -> None:
    """A failed append leaves everything as it was."""
    cache = made(blocks=3)
    a = cache.allocate()
    cache.append(a, *rows(6))
    b = cache.fork(a)
    before, bits = held(cache, [a, b]), (cache.key_cache.clone(), cache.value_cache.clone())
    with pytest.raises(
        PagedCacheFull, match="sequence 1 of 6 tokens needs 2 more blocks for 3 tokens, and 1 of 3 blocks"
    ):
        cache.append(b, *rows(3))  # one for the copy, one for what follows
    with pytest.raises(PagedCacheFull, match="needs 2 more blocks for 7 tokens, and 1 of 3 blocks are free"):
        cache.append(cache.allocate(), *rows(7))
    assert cache.free_blocks == 1 and cache.length(b) == 6
    assert torch.equal(bits[0], cache.key_cache) and torch.equal(bits[1], cache.value_cache)
    for (k, v), (old_k, old_v) in zip(held(cache, [a, b]), before, strict=True):
        assert torch.equal(k, old_k) and torch.equal(v, old_v)
    cache.append(b, *rows(2))
    assert cache.free_blocks == 0
    cache.append(a, *rows(2))  # its block is its own now
    with pytest.raises(PagedCacheFull):
        cache.append(a, *rows(1))
    cache.free(b)
    cache.append(a, *rows(1))
    assert cache.length(a) == 9


def test_a_refused_append_changes_nothing() -> None:
    cache = made()
    a = cache.allocate()
    cache.append(a, *rows(5))
    b = cache.fork(a)
    tables, bits = cache.block_tables([a, b]), cache.key_cache.clone()
    key, value = rows(2)
    for bad, message in (
        ((key[..., :3], value), r"key must be \(tokens, 2, 4\), not of shape \(2, 2, 3\)"),
        ((key, value[:1]), r"value must be \(2, 2, 3\), not of shape \(1, 2, 3\)"),
        ((key.half(), value), "key must be torch.float32, not torch.float16"),
        ((key, value.double()), "value must be torch.float32, not torch.float64"),
        ((key.numpy(), value), "key must be a torch tensor, not of type ndarray"),
        ((key.to("meta"), value), "key must be on the cache's device cpu, not on meta"),
    ):
        with pytest.raises(ArgumentError, match=f"PagedCache.append: {message}"):
            cache.append(b, *bad)
    with pytest.raises(ArgumentError, match="key must be without a gradient"):
        cache.append(b, key.requires_grad_(), value)
    cache.free(b)
    assert torch.equal(cache.key_cache, bits) and torch.equal(cache.block_tables([a]), tables[:1])
    assert cache.length(a) == 5 and cache.free_blocks == 6
    with torch.no_grad():
        cache.append(a, key, value)
    assert cache.length(a) == 7


@pytest.mark.parametrize("call", ["append", "fork", "free", "length", "block_tables", "seq_lens"])
def test_unknown_sequences(call: str) -> None:
    cache = made()
    gone = cache.allocate()
    cache.free(gone)

    def run(sequence: Any) -> Any:
        if call == "append":
            return cache.append(sequence, *rows(1))
        return getattr(cache, call)([sequence] if call in ("block_tables", "seq_lens") else sequence)

    with pytest.raises(UnknownSequence, match=rf"PagedCache.{call}: sequence 0 was freed; there are 0 now"):
        run(gone)
    with pytest.raises(LookupError, match=f"PagedCache.{call}: sequence 7 was never allocated"):
        run(7)
    with pytest.raises(ArgumentError, match=f"PagedCache.{call}: a sequence must be a number .* not 'a'"):
        run("a")
    assert cache.free_blocks == 8


def test_fp8() -> None:
    cache = made(dtype=torch.uint8, k_scale=0.5, v_scale=2.0)
    a = cache.allocate()
    keys, values = rows(6, torch.bfloat16)
    cache.append(a, keys, values)
    ((k, v),) = held(cache, [a], dtype=torch.bfloat16, k_scale=0.5, v_scale=2.0)
    for found, given, scale in ((k, keys, 0.5), (v, values, 2.0)):
        truth = (given.float() / scale).to(torch.float8_e4m3fn).float() * scale
        assert torch.equal(found, truth.bfloat16())
    with pytest.raises(ArgumentError, match=r"key must be torch.float32 or torch.float16 or torch.bfloat16"):
        cache.append(a, keys.byte(), values.byte())


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 4, 2, 4), "blocks must be a number of 1 or more, not 0"),
        ((1, 4, 2, 4.0), "head_dim must be a number of 1 or more, not 4.0"),
        ((1, 4, True, 4), "heads must be a number of 1 or more, not True"),
        ((1, 4, 2, 4, -1), "value_dim must be a number of 1 or more, not -1"),
        ((1, 4, 2, 4, 4, torch.float64), "dtype must be torch.float32, float16, bfloat16 or uint8"),
    ],
)
def test_bad_sizes(arguments: Any, message: str) -> None:
    with pytest.raises(MetalcoreError, match=f"PagedCache: {message}"):
        PagedCache(*arguments)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_use(seed: int) -> None:
    """Many calls in random order, against plain tensors; blocks are never lost and never given twice."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    cache = made(blocks=12, block_size=3)
    truth: dict[int, tuple[Any, Any]] = {}
    full = 0
    for _ in range(250):
        action = choose.choice(("allocate", "append", "append", "append", "fork", "free"))
        sequence = choose.choice([*truth]) if truth else None
        if action == "allocate" or sequence is None:
            truth[cache.allocate()] = rows(0)
        elif action == "fork" and len(truth) < 8:
            truth[cache.fork(sequence)] = truth[sequence]
        elif action == "free":
            cache.free(sequence)
            del truth[sequence]
        else:
            more = rows(choose.randint(0, 5))
            try:
                cache.append(sequence, *more)
            except PagedCacheFull:
                full += 1
            else:
                truth[sequence] = tuple(torch.cat(pair) for pair in zip(truth[sequence], more, strict=True))
        tables, lengths = cache.block_tables(truth), cache.seq_lens(truth).tolist()
        used = {b for row, n in zip(tables.tolist(), lengths, strict=True) for b in row[: -(-n // 3)]}
        assert len(used) + cache.free_blocks == 12
        for (k, v), (key, value) in zip(held(cache, [*truth]), truth.values(), strict=True):
            assert torch.equal(k, key) and torch.equal(v, value)
    assert full > 0
