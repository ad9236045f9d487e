"""paged_attention and Hugging Face's v1 and v2: the error rule, split keys, fp8, what stands in unused slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.health.routes import torch_ops_on
from metalcore.ops.base.op import FLOATS
from tests.ops.attention_cases import assert_near, kernels, randn
from tests.ops.sanitized import Found, Noting
from tests.ops.sequence_cases import PAGED, paged_case, problems

NOUN = "paged_attention"
CASES = 40
attention = metalcore.paged_attention


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("feature", PAGED)
def test_error_rule(feature: str, dtype: str) -> None:
    assert problems(NOUN, paged_case, dtype, {feature}, range(CASES)) == []


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
def test_error_rule_of_several_features(dtype: str) -> None:
    for features in ({"fp8", "queries", "gqa"}, {"window", "sinks", "queries"}, {"softcap", "alibi", "mqa", "wide"}):
        assert problems(NOUN, paged_case, dtype, features, range(CASES)) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_error_rule_of_some(dtype: str) -> None:
    assert problems(NOUN, paged_case, dtype, {"queries", "gqa", "window"}, range(3)) == []
    assert problems(NOUN, paged_case, dtype, {"fp8", "sinks", "alibi", "softcap"}, range(3)) == []


class Cache:
    """Sequences in a paged cache whose unused slots hold what is given."""

    def __init__(
        self,
        lengths: tuple[int, ...],
        block: int = 16,
        heads: int = 2,
        depth: int = 64,
        dtype: torch.dtype = torch.float32,
        rest: float = torch.nan,
    ) -> None:
        most = max(1, -(-max(lengths) // block))
        blocks = most * len(lengths) + 3
        order = torch.randperm(blocks, generator=torch.Generator().manual_seed(1))[: most * len(lengths)]
        self.tables = order.reshape(len(lengths), most).int()
        self.lengths = torch.tensor(lengths, dtype=torch.int32)
        self.block, self.heads, self.depth = block, heads, depth
        self.rows = [
            [randn(n, heads, depth, seed=7 * s + i, dtype=dtype) for s, n in enumerate(lengths)] for i in (1, 2)
        ]
        self.caches = [torch.full((blocks, block, heads, depth), rest, dtype=dtype) for _ in range(2)]
        for cache, rows in zip(self.caches, self.rows, strict=True):
            for table, row in zip(self.tables, rows, strict=True):
                for p in range(len(row)):
                    cache[table[p // block], p % block] = row[p]

    @property
    def arguments(self) -> tuple[Any, ...]:
        return *self.caches, self.tables, self.lengths

    def parted(self, part: int) -> list[Any]:
        """The caches in Hugging Face's layout."""
        keys, values = self.caches
        parts = keys.unflatten(3, (-1, part)).permute(0, 2, 3, 1, 4).contiguous()
        return [parts, values.permute(0, 2, 3, 1).contiguous()]

    def dense(self, query: Any, **named: Any) -> Any:
        """The same by dense attention, sequence by sequence: `query` has one token of each."""
        found = []
        for s, (k, v) in enumerate(zip(*self.rows, strict=True)):
            x = [t.transpose(0, 1)[None].double() for t in (query[s : s + 1], k, v)]
            found.append(metalcore.scaled_dot_product_attention(*x, enable_gqa=True, **named)[0].transpose(0, 1))
        return torch.cat(found)


NAMED: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window_size": (900, -1)},
    "small window": {"window_size": (10, -1)},
    "softcap": {"softcap": 2.0},
    "alibi": {"alibi_slopes": torch.tensor([0.1, 0.01, 0.001, 0.5])},
    "sinks": {"sinks": torch.tensor([1.0, -1.0, 4.0, 0.0])},
    "all": {
        **{"window_size": (900, -1), "softcap": 3.0},
        **{"alibi_slopes": torch.tensor([0.01, 0.001, 0.0, 0.002]), "sinks": torch.tensor([1.0, -1.0, 4.0, 0.0])},
    },
}


@pytest.mark.parametrize(
    "feature", [pytest.param(f, marks=[] if f in ("all", "plain") else [pytest.mark.sweep]) for f in NAMED]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_split_keys(dtype: torch.dtype, feature: str) -> None:
    """One sequence is split, four of the same are not."""
    cache = Cache((2000,), dtype=dtype)
    query = randn(1, 4, 64, dtype=dtype)
    run = lambda: attention(query, *cache.arguments, **NAMED[feature])  # noqa: E731
    found, launched = kernels(run)
    assert "is_split=true" in " ".join(launched) and "attention_join" in launched[-1]
    tolerance = 1e-6 if dtype == torch.float32 else 2**-8
    assert_near([found], [cache.dense(query, **NAMED[feature])], tolerance)
    for _ in range(9):
        assert torch.equal(run(), found)
    four = (query.repeat(4, 1, 1), *cache.caches, cache.tables.repeat(4, 1), cache.lengths.repeat(4))
    whole, launched = kernels(lambda: attention(*four, **NAMED[feature]))
    assert "is_split=true" not in " ".join(launched)
    assert_near([whole], [found.repeat(4, 1, 1)], tolerance)


def test_split_keys_of_many_elements() -> None:
    """float32 with so many products that lanes are elements."""
    cache = Cache((4100,), heads=1, depth=128)
    query = randn(1, 8, 128)
    found, launched = kernels(lambda: attention(query, *cache.arguments))
    assert any(label.startswith("attention_paged_decode") and "is_split=true" in label for label in launched)
    assert_near([found], [cache.dense(query)], 1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("heads, kernel", [(4, "decode"), pytest.param(24, "forward", marks=pytest.mark.sweep)])
def test_split_keys_with_the_launches_of_a_gpu(heads: int, kernel: str) -> None:
    """Rows of a key head: 2 (lanes are elements) and 12 (lanes are rows)."""
    cache = Cache((1030, 3, 700), dtype=torch.float16)
    query, sinks = randn(3, heads, 64, dtype=torch.float16), randn(heads, seed=3)
    noted = Found(NOUN)
    with torch_ops_on(Noting("apple", noted)):
        found = attention(query, *cache.arguments, sinks=sinks)
    assert {f"attention_paged_{kernel} apple", "attention_join apple"} <= noted.launches
    assert_near([found], [cache.dense(query, sinks=sinks)], 2**-10)
    assert_near([found], [attention(query, *cache.arguments, sinks=sinks)], 2**-10)


@pytest.mark.parametrize("heads, kernel", [(4, "attention_paged_decode"), (24, "attention_paged_forward")])
def test_rows_of_a_key_head_choose_the_kernel(heads: int, kernel: str) -> None:
    cache = Cache((600, 300, 450, 777), dtype=torch.bfloat16)
    query = randn(4, heads, 64, dtype=torch.bfloat16)
    found, launched = kernels(lambda: attention(query, *cache.arguments))
    assert any(label.startswith(kernel) for label in launched)
    assert_near([found], [cache.dense(query)], 2**-8)


@pytest.mark.parametrize("rest", [torch.nan, torch.inf, -torch.inf, 3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_stands_in_unused_slots_never_shows(dtype: torch.dtype, rest: float) -> None:
    for lengths, queries, window in (((33, 1, 100), 1, -1), ((33, 7, 100), 5, 20), ((2000,), 1, 50)):
        found = []
        for fill in (0.0, rest):
            cache = Cache(lengths, dtype=dtype, rest=fill)
            starts = torch.arange(0, len(lengths) * queries + 1, queries) if queries > 1 else None
            query = randn(len(lengths) * queries, 4, 64, dtype=dtype)
            found.append(attention(query, *cache.arguments, cu_seqlens_q=starts, window_size=(window, -1)))
        assert found[1].isfinite().all() and torch.equal(*found)


@pytest.mark.parametrize("window", [-1, 5])
def test_keys_outside_of_the_window_hold_anything(window: int) -> None:
    cache = Cache((100, 40), dtype=torch.bfloat16)
    query = randn(2, 4, 64, dtype=torch.bfloat16)
    expected = attention(query, *cache.arguments, window_size=(window, -1))
    for cached in cache.caches:
        for table, n in zip(cache.tables, cache.lengths.tolist(), strict=True):
            for p in range(n - window - 1 if window >= 0 else 0):
                cached[table[p // 16], p % 16] = torch.nan
    assert torch.equal(attention(query, *cache.arguments, window_size=(window, -1)), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fp8_as_gathered(dtype: str) -> None:
    """Gathered rows are exact in either dtype but for one rounding of the product with the scale: here powers of 2."""
    kind = getattr(torch, dtype)
    cache = Cache((50, 9, 33), dtype=torch.float32, rest=0.0)
    codes = [torch.full_like(c, 127, dtype=torch.uint8) for c in cache.caches]  # NaN
    places = [(t[p // 16], p % 16) for t, n in zip(cache.tables, cache.lengths.tolist(), strict=True) for p in range(n)]
    slots = torch.tensor([int(b) * 16 + p for b, p in places])
    rows = [torch.cat(x).to(kind) for x in cache.rows]
    metalcore.reshape_and_cache_flash(*rows, *codes, slots, "fp8", 0.25, 0.5)
    query, scales = randn(3, 4, 64, dtype=kind), {"k_scale": 0.25, "v_scale": 0.5}
    found = attention(query, *codes, cache.tables, cache.lengths, **scales)
    gathered = metalcore.gather_kv_cache(*codes, cache.tables, cache.lengths, dtype=dtype, **scales)
    parts = [x.double().split(cache.lengths.tolist()) for x in gathered]
    for s, (k, v) in enumerate(zip(*parts, strict=True)):
        x = [t.transpose(0, 1)[None] for t in (query[s : s + 1].double(), k, v)]
        expected = torch.nn.functional.scaled_dot_product_attention(*x, enable_gqa=True)[0].transpose(0, 1)
        assert_near([found[s : s + 1]], [expected], 1e-6 if dtype == "float32" else 2**-8)
    assert_near([found], [cache.dense(query)], 0.1)  # fp8 has 4 digits of 2


@pytest.mark.parametrize("lengths", [(33, 1, 100), (2000,)])
@pytest.mark.parametrize("dtype, part", [(torch.float32, 4), (torch.float16, 8), (torch.bfloat16, 8)])
def test_v1_and_v2_have_the_bits_of_paged_attention(dtype: torch.dtype, part: int, lengths: tuple[int, ...]) -> None:
    cache = Cache(lengths, dtype=dtype)
    query, slopes = randn(len(lengths), 4, 64, dtype=dtype), torch.tensor([0.1, 0.01, 0.001, 0.0])
    expected = attention(query, *cache.arguments, scale=0.2, alibi_slopes=slopes)
    given = (query, *cache.parted(part), 2, 0.2, cache.tables, cache.lengths, 16, max(lengths), slopes)
    first, second = torch.full_like(query, torch.nan), torch.full_like(query, torch.nan)
    assert metalcore.paged_attention_v1(first, *given) is None
    room = torch.full((3,), torch.nan)
    assert metalcore.paged_attention_v2(second, room, room, room, *given) is None
    assert torch.equal(first, expected) and torch.equal(second, expected)


def test_v1_of_fp8() -> None:
    cache = Cache((33, 7), rest=0.0)
    tokens = [torch.cat(x) for x in cache.rows]
    places = [(t[p // 16], p % 16) for t, n in zip(cache.tables, cache.lengths.tolist(), strict=True) for p in range(n)]
    slots = torch.tensor([int(b) * 16 + p for b, p in places])
    flat = [torch.zeros_like(c, dtype=torch.uint8) for c in cache.caches]
    parted = [torch.zeros_like(c, dtype=torch.uint8) for c in cache.parted(16)]
    metalcore.reshape_and_cache_flash(*tokens, *flat, slots, "fp8", 0.3, 0.7)
    metalcore.reshape_and_cache(*tokens, *parted, slots, "fp8", 0.3, 0.7)
    query = randn(2, 4, 64)
    out = torch.empty_like(query)
    metalcore.paged_attention_v1(
        out, query, *parted, 2, 0.125, cache.tables, cache.lengths, 16, 33, None, "fp8", 0.3, 0.7
    )
    assert torch.equal(out, attention(query, *flat, cache.tables, cache.lengths, k_scale=0.3, v_scale=0.7))
    assert_near([out], [cache.dense(query)], 0.1)


def test_new_tokens_see_those_up_to_themselves() -> None:
    cache = Cache((40, 5, 70))
    queries = [3, 5, 0]
    query = randn(8, 4, 64)
    found = attention(query, *cache.arguments, cu_seqlens_q=torch.tensor([0, 3, 8, 8]))
    for s, first in ((0, 0), (1, 3)):
        for i in range(queries[s]):
            seen = cache.lengths.clone()
            seen[s] -= queries[s] - 1 - i
            one = attention(query[first + i].expand(3, 4, 64), *cache.caches, cache.tables, seen)[s]
            assert_near([found[first + i]], [one], 1e-6)


def test_ten_runs_have_the_same_bits() -> None:
    cache = Cache((40, 5, 270), dtype=torch.float16)
    query, starts = randn(41, 8, 64, dtype=torch.float16), torch.tensor([0, 1, 6, 41])
    first = attention(query, *cache.arguments, cu_seqlens_q=starts, softcap=5.0)
    for _ in range(9):
        assert torch.equal(attention(query, *cache.arguments, cu_seqlens_q=starts, softcap=5.0), first)


def test_nothing_to_do() -> None:
    cache = Cache((3, 4))
    none = attention(torch.zeros(0, 4, 64), *cache.caches, torch.zeros(0, 2).int(), torch.zeros(0).int())
    assert none.shape == (0, 4, 64)
    tokens = attention(torch.zeros(0, 4, 64), *cache.arguments, cu_seqlens_q=torch.zeros(3).int())
    assert tokens.shape == (0, 4, 64)
    empty = attention(
        torch.zeros(0, 4, 64), *cache.caches, cache.tables, torch.zeros(2).int(), cu_seqlens_q=torch.zeros(3).int()
    )
    assert empty.shape == (0, 4, 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_that_see_nothing(dtype: torch.dtype) -> None:
    """A sequence of no tokens, as a padded batch has them, and one of fewer tokens than queries."""
    cache, query = Cache((9, 0, 2), dtype=dtype), randn(3, 4, 64, dtype=dtype)
    found = attention(query, *cache.arguments)
    assert not found[1].any() and found[0].any() and found[2].any()
    assert attention(query, *cache.arguments, sinks=torch.ones(4)).isfinite().all()
    out = torch.full_like(query, torch.nan)
    metalcore.paged_attention_v1(out, query, *cache.parted(4), 2, 0.125, cache.tables, cache.lengths, 16, 9)
    assert torch.equal(out, found)
    found = attention(query, *cache.arguments, cu_seqlens_q=torch.tensor([0, 0, 0, 3]))
    assert not found[0].any()
    assert torch.equal(found[1], cache.rows[1][2][0].repeat_interleave(2, 0))


def test_numpy_and_mlx() -> None:
    mx = pytest.importorskip("mlx.core")
    import metalcore.mlx as metal

    cache, query = Cache((33, 1, 100)), randn(3, 4, 64)
    expected = attention(query, *cache.arguments, scale=0.2).numpy()
    arrays = [x.numpy() for x in (query, *cache.arguments)]
    assert np.array_equal(attention(*arrays, scale=0.2), expected)
    given = [mx.array(x) for x in arrays]
    assert np.array_equal(np.array(metal.paged_attention(*given, scale=0.2)), expected)
    parted = [mx.array(x.numpy()) for x in cache.parted(4)]
    out = mx.zeros(query.shape)
    rest = (given[0], *parted, 2, 0.2, given[3], given[4], 16, 100)
    for found in (metal.paged_attention_v1(out, *rest), metal.paged_attention_v2(out, None, None, None, *rest)):
        assert np.array_equal(np.array(found), expected)
    assert not np.array(out).any()
