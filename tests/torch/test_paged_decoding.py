"""A decoding loop over metalcore.nn.PagedCache, with a fork, against dense attention over the same tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
import metalcore.nn
from metalcore.errors import PagedCacheFull

HEADS, KEY_HEADS, DEPTH, VALUE_DEPTH = 4, 2, 16, 8


class Tokens:
    """Keys and values of sequences: in a paged cache, and dense beside it."""

    def __init__(self, dtype: torch.dtype, **named: Any) -> None:
        self.cache = metalcore.nn.PagedCache(
            14, 4, KEY_HEADS, DEPTH, VALUE_DEPTH, torch.uint8 if named else dtype, **named
        )
        self.dtype, self.random = dtype, torch.Generator().manual_seed(0)
        self.dense: dict[int, tuple[Any, Any]] = {}

    def draw(self, *shape: int) -> Any:
        return torch.randn(*shape, generator=self.random).to(self.dtype)

    def start(self) -> int:
        sequence = self.cache.allocate()
        self.dense[sequence] = (self.draw(0, KEY_HEADS, DEPTH), self.draw(0, KEY_HEADS, VALUE_DEPTH))
        return sequence

    def fork(self, sequence: int) -> int:
        made = self.cache.fork(sequence)
        self.dense[made] = self.dense[sequence]
        return made

    def append(self, sequence: int, count: int) -> None:
        rows = self.draw(count, KEY_HEADS, DEPTH), self.draw(count, KEY_HEADS, VALUE_DEPTH)
        self.cache.append(sequence, *rows)
        old = self.dense[sequence]
        self.dense[sequence] = (torch.cat([old[0], rows[0]]), torch.cat([old[1], rows[1]]))

    def attend(self, sequences: list[int], counts: list[int], **named: Any) -> tuple[Any, Any]:
        """Of the last tokens of each: by paged_attention, and dense in float64."""
        query = self.draw(sum(counts), HEADS, DEPTH)
        starts = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()])
        tables, lengths = self.cache.block_tables(sequences), self.cache.seq_lens(sequences)
        caches = (self.cache.key_cache, self.cache.value_cache)
        is_one = all(n == 1 for n in counts)
        found = metalcore.paged_attention(
            query, *caches, tables, lengths, cu_seqlens_q=None if is_one else starts, **named
        )
        expected = []
        for q, s in zip(query.split(counts), sequences, strict=True):
            k, v = self.dense[s]
            seen = torch.ones(len(q), len(k)).tril(len(k) - len(q)).bool()
            x = [t.transpose(0, 1).double()[None] for t in (q, k, v)]
            out = torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=seen, enable_gqa=True)
            expected.append(out[0].transpose(0, 1))
        return found, torch.cat(expected)


def decode(tokens: Tokens, tolerance: float, **named: Any) -> None:
    first, second = tokens.start(), tokens.start()
    tokens.append(first, 7)
    tokens.append(second, 4)
    sequences = [first, second]

    def check(counts: list[int]) -> None:
        found, expected = tokens.attend(sequences, counts, **named)
        assert found.dtype == tokens.dtype and found.shape == (sum(counts), HEADS, VALUE_DEPTH)
        assert (found.double() - expected).abs().max() <= tolerance

    check([7, 4])  # prefill
    for step in range(9):
        if step == 3:
            sequences.append(tokens.fork(first))
        if step == 5:
            tokens.cache.free(sequences.pop(1))
            sequences.append(tokens.fork(sequences[-1]))
        for s in sequences:
            tokens.append(s, 1)
        check([1] * len(sequences))
    lengths = tokens.cache.seq_lens(sequences).tolist()
    assert lengths == [16, 16, 16] and len({tuple(r) for r in tokens.cache.block_tables(sequences).tolist()}) == 3
    shared = [row[:2] for row in tokens.cache.block_tables(sequences).tolist()]
    assert shared[0][0] == shared[1][0] == shared[2][0]  # what came before the fork stands in memory once
    check([1, 16, 3])


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_as_dense_attention(dtype: torch.dtype, tolerance: float) -> None:
    decode(Tokens(dtype), tolerance)


def test_of_fp8() -> None:
    """Values of up to 4, with 3 bits behind the first: an error of up to a sixteenth of them."""
    decode(Tokens(torch.float32, k_scale=0.01, v_scale=0.01), 0.25, k_scale=0.01, v_scale=0.01)


def test_a_full_cache_leaves_the_sequences_as_they_were() -> None:
    tokens = Tokens(torch.float32)
    first = tokens.start()
    tokens.append(first, 50)
    second = tokens.fork(first)
    tokens.append(second, 2)  # takes the last block but one, for a copy
    before, expected = tokens.attend([first, second], [1, 1])
    assert (before.double() - expected).abs().max() <= 1e-6
    with pytest.raises(PagedCacheFull, match="needs 1 more blocks for 3 tokens, and 0 of 14 blocks are free"):
        tokens.append(second, 3)
    found, expected = tokens.attend([first, second], [1, 1])
    assert (found.double() - expected).abs().max() <= 1e-6
