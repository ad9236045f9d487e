"""Bad input of variable-length and paged attention: what is said, and that nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.health.routes import text_mps, torch_ops_on

BLOCKS, BLOCK, HEADS, DEPTH = 7, 4, 2, 8
LENGTHS = [9, 2, 12]
TABLES = [[3, 0, 6], [1, -9, 99], [5, 2, 4]]  # what is beyond a length is not looked at


def starts(*values: int, dtype: torch.dtype = torch.int64) -> Any:
    return torch.tensor(values, dtype=dtype)


def varlen(**changes: Any) -> Any:
    given: dict[str, Any] = {name: torch.ones(6, HEADS, DEPTH) for name in ("q", "k", "v")}
    given |= {"cu_seqlens_q": starts(0, 2, 6), "cu_seqlens_k": starts(0, 3, 6), "max_seqlen_q": 4, "max_seqlen_k": 3}
    return metalcore.flash_attn_varlen_func(**{**given, **changes})


def paged(run: Any = metalcore.paged_attention, **changes: Any) -> Any:
    given: dict[str, Any] = {"query": torch.ones(3, 2 * HEADS, DEPTH)}
    given |= {name: torch.ones(BLOCKS, BLOCK, HEADS, DEPTH) for name in ("key_cache", "value_cache")}
    given |= {"block_tables": torch.tensor(TABLES), "seq_lens": torch.tensor(LENGTHS)}
    return run(**{**given, **changes})


def first(out: Any, **changes: Any) -> Any:
    """paged_attention_v1 of the same."""
    given: dict[str, Any] = {"out": out, "query": torch.ones(3, 2 * HEADS, DEPTH), "num_kv_heads": HEADS, "scale": 1.0}
    given |= {"key_cache": torch.ones(BLOCKS, HEADS, 2, BLOCK, 4), "value_cache": torch.ones(BLOCKS, HEADS, 8, BLOCK)}
    given |= {"block_tables": torch.tensor(TABLES), "seq_lens": torch.tensor(LENGTHS), "block_size": BLOCK}
    return metalcore.paged_attention_v1(**{**given, "max_seq_len": 12, **changes})


def changed(values: Any, place: Any, value: int) -> Any:
    found = torch.tensor(values)
    found[place] = value
    return found


WRONG_STARTS = [
    (
        {"cu_seqlens_q": starts(0, 4, 2)},
        r"cu_seqlens_q has 2 at 2: it must begin with 0, ascend by at most max_seqlen_q",
    ),
    ({"cu_seqlens_q": starts(0, 2, 5)}, "cu_seqlens_q has 5 at 2: .* and end with 6, the tokens of q"),
    ({"cu_seqlens_q": starts(1, 2, 6)}, "cu_seqlens_q has 1 at 0"),
    ({"cu_seqlens_q": starts(0, 7, 6)}, "cu_seqlens_q has 7 at 1"),
    ({"cu_seqlens_q": starts(0, -1, 6)}, "cu_seqlens_q has -1 at 1"),
    ({"cu_seqlens_q": starts(0, 2 + (1 << 32), 6)}, "cu_seqlens_q has 2147483647 at 1"),
    ({"cu_seqlens_k": starts(0, 3 - (1 << 32), 6)}, "cu_seqlens_k has -2147483648 at 1"),
    ({"cu_seqlens_k": starts(0, 4, 6)}, "cu_seqlens_k has 4 at 1: .* ascend by at most max_seqlen_k, 3"),
    ({"cu_seqlens_k": starts(0, 4, 6, dtype=torch.int32)}, "cu_seqlens_k has 4 at 1"),
    ({"max_seqlen_q": 3}, "cu_seqlens_q has 6 at 2: .* by at most max_seqlen_q, 3"),
    ({"cu_seqlens_q": starts(0), "cu_seqlens_k": starts(0)}, "cu_seqlens_q has 0 at 0: .* and end with 6"),
]


@pytest.mark.parametrize("changes, message", WRONG_STARTS)
def test_wrong_starts(changes: dict[str, Any], message: str) -> None:
    for _ in range(2):  # a remembered plan too
        with pytest.raises(IndexRangeError, match=f"flash_attn_varlen_func: {message}"):
            varlen(**changes)
    arrays = {name: torch.ones(6, HEADS, DEPTH).numpy() for name in ("q", "k", "v")}
    arrays |= {"cu_seqlens_q": starts(0, 2, 6).numpy(), "cu_seqlens_k": starts(0, 3, 6).numpy()}
    with pytest.raises(IndexRangeError, match=message):
        varlen(**{**arrays, **{n: x.numpy() if hasattr(x, "numpy") else x for n, x in changes.items()}})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"q": torch.ones(6, 2, 8).int()}, "q must be float32, float16, bfloat16 or float64, not of dtype int32"),
        ({"q": [1.0]}, "q must be a torch tensor, a NumPy array or an mlx array, not of type list"),
        ({"k": torch.ones(6, 2, 8).half()}, "k must be of the dtype of q, float32, not of dtype float16"),
        ({"v": torch.ones(6, 16)}, r"v must be of shape \(tokens, heads, depth\)"),
        ({"k": torch.ones(6, 2, 7)}, "k must be of the depth of q, 8"),
        ({"v": torch.ones(5, 2, 8)}, "v must be of the tokens and heads of k"),
        (
            {"k": torch.ones(6, 3, 8), "v": torch.ones(6, 3, 8)},
            "k must be of heads that divide those of q, 2, not of 3",
        ),
        ({n: torch.ones(6, 2, 257) for n in "qkv"}, "q must be .* with a depth from 1 to 256, not of shape .*257"),
        ({"v": torch.ones(6, 2, 300)}, "v must be .* with a depth from 1 to 256"),
        ({"q": torch.ones(6, 2, 8, device="meta")}, "k must be on the device of q, meta, not on cpu"),
        ({"cu_seqlens_k": starts(0, 3, 6).to("meta")}, "cu_seqlens_k must be on the device of q, cpu, not on meta"),
        ({"alibi_slopes": torch.ones(2, device="meta")}, "alibi_slopes must be on the device of q"),
        ({"cu_seqlens_q": torch.ones(3)}, "cu_seqlens_q must be int64, int32 or uint32, not of dtype float32"),
        ({"cu_seqlens_q": [0, 2, 6]}, "cu_seqlens_q must be a torch tensor"),
        ({"cu_seqlens_q": torch.zeros(0).int()}, r"cu_seqlens_q must be of shape \(sequences \+ 1,\)"),
        ({"cu_seqlens_q": torch.zeros(1, 3).int()}, r"cu_seqlens_q must be of shape \(sequences \+ 1,\)"),
        ({"cu_seqlens_k": starts(0, 6)}, "cu_seqlens_k must be of the shape of cu_seqlens_q"),
        ({"max_seqlen_q": -1}, "max_seqlen_q must be a whole number, the length of the longest sequence, not -1"),
        ({"max_seqlen_k": 2.0}, "max_seqlen_k must be a whole number"),
        ({"max_seqlen_k": 1 << 30}, "max_seqlen_k must be a whole number"),
        ({"alibi_slopes": torch.ones(3)}, r"alibi_slopes must be of shape \(2,\) or \(2, 2\), not of shape \(3,\)"),
        ({"window_size": (-2, 0)}, "window_size must be two whole numbers from 0 on, or -1"),
        ({"window_size": 3}, "window_size must be a pair"),
        ({"dropout_p": 1.0}, "dropout_p must be from 0 to below 1"),
        ({"softcap": -1.0}, "softcap must be 0, which is off, or a number above it"),
        ({"softmax_scale": float("nan")}, "scale must be None or a finite number"),
        ({"block_table": starts(0), "causal": True, "dropout_p": 0.1}, "block_table must be None with dropout_p"),
        ({"block_table": starts(0)}, "causal must be True with block_table and several queries"),
    ],
)
def test_bad_arguments_of_varlen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"flash_attn_varlen_func: {message}"):
        varlen(**changes)


WRONG_SEQUENCES = [
    ({"block_tables": changed(TABLES, (2, 2), BLOCKS)}, 2, 12),
    ({"block_tables": changed(TABLES, (0, 0), -1)}, 0, 9),
    ({"block_tables": changed(TABLES, (0, 0), 3 + (1 << 32))}, 0, 9),
    ({"block_tables": changed(TABLES, (1, 0), BLOCKS).int()}, 1, 2),
    ({"seq_lens": changed(LENGTHS, 2, 13)}, 2, 13),
    ({"seq_lens": changed(LENGTHS, 1, -1)}, 1, -1),
    ({"seq_lens": changed(LENGTHS, 0, 9 + (1 << 32))}, 0, (1 << 31) - 1),
]


@pytest.mark.parametrize("changes, sequence, length", WRONG_SEQUENCES)
def test_wrong_blocks_and_lengths(changes: dict[str, Any], sequence: int, length: int) -> None:
    message = f"sequence {sequence} with seq_lens {length} is wrong: it must have from 0 to 12, .* blocks in 0 to 6"
    for _ in range(2):
        with pytest.raises(IndexRangeError, match=f"paged_attention: {message}"):
            paged(**changes)
    out = torch.full((3, 2 * HEADS, DEPTH), 7.0)
    with pytest.raises(IndexRangeError, match=f"paged_attention_v1: {message}"):
        first(out, **changes)
    assert (out == 7).all()
    first(out)
    assert (out == 1).all()


def nan_on_a_gpu(changes: dict[str, Any], sequence: int) -> None:
    with torch_ops_on(text_mps()):
        found = paged(**changes)
    wrong = torch.zeros(3, dtype=torch.bool)
    wrong[sequence] = True
    assert found[wrong].isnan().all() and (found[~wrong] == 1).all()


@pytest.mark.parametrize("changes, sequence, _", WRONG_SEQUENCES)
def test_on_a_gpu_a_wrong_sequence_is_nan(changes: dict[str, Any], sequence: int, _: int) -> None:
    nan_on_a_gpu(changes, sequence)


@pytest.mark.parametrize("length", [-1, 1201])
def test_on_a_gpu_a_wrong_sequence_is_nan_where_keys_are_split(length: int) -> None:
    tables = torch.cat([torch.tensor(TABLES), torch.zeros(3, 297, dtype=torch.int64)], 1)
    nan_on_a_gpu({"block_tables": tables, "seq_lens": torch.tensor([9, length, 1200])}, 1)


@pytest.mark.parametrize(
    "given, message",
    [
        ([0, 1, 2, 2], "cu_seqlens_q must begin with 0 and end with 3, the tokens of query, not 2"),
        ([1, 1, 2, 3], "cu_seqlens_q must begin with 0 and end with 3, the tokens of query, not 1"),
        ([0, 2, 1, 3], "sequence 1 with seq_lens 2 is wrong: .* cu_seqlens_q must ascend"),
        ([0, 1, 2 + (1 << 32), 3], "sequence 1 with seq_lens 2 is wrong"),
    ],
)
def test_wrong_starts_of_new_tokens(given: list[int], message: str) -> None:
    with pytest.raises(IndexRangeError, match=f"paged_attention: {message}"):
        paged(cu_seqlens_q=torch.tensor(given))


def test_longer_than_promised() -> None:
    out = torch.full((3, 2 * HEADS, DEPTH), 7.0)
    with pytest.raises(
        IndexRangeError, match=r"paged_attention_v1: sequence 2 with seq_lens 12 is wrong: it must have from 0 to 11"
    ):
        first(out, max_seq_len=11)
    assert (out == 7).all()
    cache = torch.ones(BLOCKS, BLOCK, HEADS, DEPTH)
    table = {"q": torch.ones(3, 4, DEPTH), "k": cache, "v": cache, "block_table": torch.tensor(TABLES), "causal": True}
    good = {"cu_seqlens_q": starts(0, 1, 1, 3), "cu_seqlens_k": starts(0, 9, 11, 23)}
    assert (varlen(**table, **good, max_seqlen_q=2, max_seqlen_k=12) == 1).all()
    for most_q, most_k in ((1, 12), (2, 11)):
        with pytest.raises(IndexRangeError, match="sequence 2 with seq_lens 12 is wrong"):
            varlen(**table, **good, max_seqlen_q=most_q, max_seqlen_k=most_k)


CACHE = torch.ones(BLOCKS, BLOCK, HEADS, DEPTH)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"query": torch.ones(3, 4, 8).double()}, "query must be float32, float16 or bfloat16, not of dtype float64"),
        ({"query": torch.ones(3, 32)}, r"query must be of shape \(tokens, heads, depth\)"),
        ({"query": torch.ones(2, 4, 8)}, "query must be of one token for each of 3 sequences, or with cu_seqlens_q"),
        ({"query": torch.ones(3, 3, 8)}, "key_cache must be of heads that divide those of query, 3, not of 2"),
        ({"query": torch.ones(3, 4, 9)}, r"key_cache must be of shape \(blocks, block_size, heads, 9\)"),
        ({"key_cache": CACHE.half()}, r"key_cache must be of the query's dtype float32, or uint8 \(fp8\)"),
        ({"value_cache": CACHE.byte()}, "value_cache must be of the key_cache's dtype float32, not uint8"),
        ({"value_cache": CACHE[:3]}, "value_cache must be of shape .* not of shape"),
        ({"key_cache": CACHE[:, :0], "value_cache": CACHE[:, :0]}, "key_cache must be of blocks with at least one row"),
        ({"block_tables": torch.zeros(3).int()}, r"block_tables must be of shape \(3, most blocks\)"),
        ({"block_tables": torch.zeros(3, 2)}, "block_tables must be int64, int32 or uint32"),
        ({"seq_lens": LENGTHS}, "seq_lens must be a torch tensor"),
        ({"seq_lens": torch.zeros(3)}, "seq_lens must be int64, int32 or uint32"),
        ({"cu_seqlens_q": torch.zeros(3).int()}, r"cu_seqlens_q must be of shape \(4,\)"),
        ({"alibi_slopes": torch.ones(3)}, r"alibi_slopes must be of shape \(4,\), one for each head"),
        ({"sinks": torch.ones(4).int()}, "sinks must be float32"),
        ({"value_cache": CACHE.to("meta")}, "value_cache must be on the device of query, cpu, not on meta"),
        ({"sinks": torch.ones(4, device="meta")}, "sinks must be on the device of query, cpu, not on meta"),
        ({"k_scale": 0.0}, "k_scale must be a number above 0, not 0.0"),
        ({"window_size": (-3, -1)}, "window_size must be two whole numbers from 0 on"),
        ({"scale": "x"}, "scale must be None or a finite number"),
        (
            {"query": torch.ones(3, 4, 300), **dict.fromkeys(("key_cache", "value_cache"), torch.ones(7, 4, 2, 300))},
            "query must be of a depth from 1 to 256, as value_cache, not of shape .*300",
        ),
        (
            {"block_tables": torch.zeros(0, 3).int(), "seq_lens": starts(), "cu_seqlens_q": starts(0)},
            "query must be of no tokens where there are no sequences, not 3",
        ),
    ],
)
def test_bad_arguments_of_paged_attention(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"paged_attention: {message}"):
        paged(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"out": torch.ones(3, 4, 9)}, r"out must be of the shape and dtype of query, \(3, 4, 8\) float32"),
        ({"out": torch.ones(3, 4, 8).half()}, "out must be of the shape and dtype of query"),
        ({"out": torch.ones(3, 8, 4).transpose(1, 2)}, "out must be contiguous, as it is written in place"),
        ({"num_kv_heads": 4}, r"key_cache must be of shape \(blocks, 4, depth / x, 4, x\)"),
        ({"block_size": 8}, r"key_cache must be of shape \(blocks, 2, depth / x, 8, x\)"),
        ({"value_cache": CACHE}, "value_cache must be of shape"),
        ({"max_seq_len": -1}, "max_seq_len must be a whole number, the length of the longest sequence, not -1"),
        ({"alibi_slopes": torch.ones(2)}, r"alibi_slopes must be of shape \(4,\), one for each head"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype must be fp8 for caches of uint8, auto for others, not 'fp8'"),
        ({"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype must be auto, fp8 or fp8_e4m3"),
        ({"blocksparse_vert_stride": 1}, "block-sparse attention is not supported"),
        ({"seq_lens": LENGTHS}, "seq_lens must be a torch tensor"),
    ],
)
def test_bad_arguments_of_v1(changes: dict[str, Any], message: str) -> None:
    out = changes.get("out", torch.full((3, 2 * HEADS, DEPTH), 7.0))
    before = out.clone()
    with pytest.raises(ArgumentError, match=f"paged_attention_v1: .*{message}"):
        first(**{"out": out, **changes})
    assert torch.equal(out, before)
