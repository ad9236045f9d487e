"""gather_kv_cache: bit for bit, all codes of fp8, what is not looked at, lengths and blocks that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError, IndexRangeError  # noqa: E402
from metalcore.health.cases.gather_kv_cache import reference  # noqa: E402

BLOCKS, BLOCK, HEADS, DIM, VALUE_DIM = 7, 4, 2, 5, 3
LENGTHS = [9, 0, 4, 1, 12]
TABLES = [[3, 0, 6], [-1, 99, 7], [5, 1000, -5], [5, -1, -1], [1, 2, 4]]  # beyond the lengths anything


def caches(dtype: Any) -> list[Any]:
    random = torch.Generator().manual_seed(0)
    size = torch.empty((), dtype=dtype).element_size()
    shapes = [(BLOCKS, BLOCK, HEADS, d * size) for d in (DIM, VALUE_DIM)]
    return [torch.randint(0, 256, s, generator=random, dtype=torch.uint8).view(dtype) for s in shapes]


def indices(kind: Any = torch.int32) -> tuple[Any, Any]:
    return torch.tensor(TABLES, dtype=kind), torch.tensor(LENGTHS, dtype=kind)


def same_bits(a: Any, b: Any) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("total", [None, sum(LENGTHS)])
@pytest.mark.sweep
def test_bit_for_bit(dtype: Any, total: int | None) -> None:
    for kind in (torch.int32, torch.int64):
        found = metalcore.gather_kv_cache(*caches(dtype), *indices(kind), total=total)
        assert found[0].shape == (26, HEADS, DIM) and found[1].shape == (26, HEADS, VALUE_DIM)
        assert all(map(same_bits, found, reference(*caches(dtype), *indices(kind))))


def test_bits_of_half() -> None:
    found = metalcore.gather_kv_cache(*caches(torch.float16), *indices())
    assert all(map(same_bits, found, reference(*caches(torch.float16), *indices())))


def test_it_reads_what_reshape_and_cache_flash_wrote() -> None:
    keys, values = caches(torch.float32)
    key, value = torch.randn(26, HEADS, DIM), torch.randn(26, HEADS, VALUE_DIM)
    tables, lengths = indices()
    tables[3, 0], lengths[0] = 6, 8  # no block of two sequences
    places = [int(tables[s, p // BLOCK]) * BLOCK + p % BLOCK for s, n in enumerate(lengths.tolist()) for p in range(n)]
    assert len(set(places)) == len(places) == 25
    metalcore.reshape_and_cache_flash(key[:25], value[:25], keys, values, torch.tensor(places))
    found = metalcore.gather_kv_cache(keys, values, tables, lengths)
    assert torch.equal(found[0], key[:25]) and torch.equal(found[1], value[:25])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_all_codes_of_fp8(dtype: str) -> None:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(16, 4, 2, 2)
    tables, lengths = torch.arange(16).flip(0)[None], torch.tensor([64])
    kind = getattr(torch, dtype)
    found = metalcore.gather_kv_cache(codes, codes, tables, lengths, dtype=dtype, k_scale=0.5, v_scale=3.25)
    for ours, scale in zip(found, (0.5, 3.25), strict=True):
        truth = (codes.flip(0).view(torch.float8_e4m3fn).float() * scale).to(kind).flatten(0, 1)
        assert ours.dtype == kind and torch.equal(ours.isnan(), truth.isnan()) and ours.isnan().sum() == 2
        assert torch.equal(ours.nan_to_num(1e4), truth.nan_to_num(1e4))
    again = metalcore.gather_kv_cache(codes, codes, tables, lengths, dtype=kind, k_scale=0.5, v_scale=3.25)
    assert all(map(same_bits, again, found))
    arrays = [x.numpy() for x in (codes, codes, tables, lengths)]
    if dtype == "float16":
        numpy = metalcore.gather_kv_cache(*arrays, dtype=np.float16)
        assert numpy[0].dtype == np.float16 and np.nanmax(numpy[0]) == 448


def test_nothing_to_gather() -> None:
    keys, values = caches(torch.float32)
    for tables, lengths in ((torch.zeros(0, 3), torch.zeros(0)), (torch.zeros(2, 0), torch.zeros(2))):
        found = metalcore.gather_kv_cache(keys, values, tables.int(), lengths.int())
        assert found[0].shape == (0, HEADS, DIM) and found[1].shape == (0, HEADS, VALUE_DIM)


@pytest.mark.parametrize(
    "change, message",
    [
        (("tables", (4, 2), BLOCKS), "block_tables has the block 7 at place 2 of sequence 4, out of range: .* 0 to 6"),
        (("tables", (0, 0), -1), "block_tables has the block -1 at place 0 of sequence 0, out of range"),
        (("lengths", 2, 13), "seq_lens has 13 for sequence 2: its row of block_tables holds 0 to 12"),
        (("lengths", 3, -1), "seq_lens has -1 for sequence 3"),
    ],
)
def test_wrong_indices(change: Any, message: str) -> None:
    tables, lengths = indices(torch.int64)
    run = metalcore.gather_kv_cache
    total = sum(LENGTHS)
    run(*caches(torch.float32), tables, lengths, total=total)
    {"tables": tables, "lengths": lengths}[change[0]][change[1]] = change[2]
    for given in (total, total, None):
        with pytest.raises(IndexRangeError, match=f"gather_kv_cache: {message}"):
            run(*caches(torch.float32), tables, lengths, total=given)
    arrays = [x.numpy() for x in (*caches(torch.float32), tables, lengths)]
    with pytest.raises(IndexRangeError, match=message):
        run(*arrays)


def test_a_wrong_total() -> None:
    for total in (25, 27, 0, 1000):
        with pytest.raises(IndexRangeError, match=f"total must be the sum of seq_lens, 26, not {total}"):
            metalcore.gather_kv_cache(*caches(torch.float32), *indices(), total=total)


def test_on_a_gpu_wrong_blocks_are_nan() -> None:
    from metalcore.health.routes import text_mps, torch_ops_on

    keys, values = (torch.ones_like(c) for c in caches(torch.float32))
    tables, lengths = indices()
    tables[0, 1], tables[4, 0] = 7, -1
    with torch_ops_on(text_mps()):
        found = metalcore.gather_kv_cache(keys, values, tables, lengths, total=28)
    wrong = torch.zeros(28, dtype=torch.bool)
    wrong[4:8], wrong[14:18], wrong[26:] = True, True, True  # the last two: no sequence has them
    for x in found:
        assert x[wrong].isnan().all() and (x[~wrong] == 1).all()


def test_compiled_for_several_totals() -> None:
    keys, values = caches(torch.float32)
    keys, values = keys.nan_to_num(0.5), values.nan_to_num(0.5)
    torch.compiler.reset()
    run = torch.compile(
        lambda t, n, total: metalcore.gather_kv_cache(keys, values, t, n, total=total)[0] * 2,
        fullgraph=True,
        backend="aot_eager",
    )
    tables, lengths = indices()
    for cut in (0, 1, 2):
        lengths[0] = 9 - cut
        expected = reference(keys, values, tables, lengths)[0] * 2
        assert torch.equal(run(tables, lengths, 26 - cut), expected)


@pytest.mark.parametrize(
    "by, message",
    [
        ({"key_cache": torch.zeros(2, 3, 4)}, r"key_cache must be \(blocks, block_size, heads, head_dim\)"),
        ({"key_cache": torch.zeros(2, 0, 4, 1)}, "value_cache must be"),
        (
            {"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM).double()},
            "key_cache must be float32, float16, bfloat16",
        ),
        (
            {"value_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM).half()},
            "value_cache must be of the dtype of key_cache",
        ),
        ({"value_cache": torch.zeros(BLOCKS, BLOCK, 3, DIM)}, r"value_cache must be \(7, 4, 2, head_dim\)"),
        ({"block_tables": torch.zeros(5, 3)}, "block_tables must be int64, int32 or uint32"),
        ({"block_tables": torch.zeros(5).int()}, r"block_tables must be \(sequences, blocks\)"),
        ({"seq_lens": torch.zeros(4).int()}, r"seq_lens must be of shape \(5,\), as block_tables has rows"),
        ({"dtype": "float16"}, "dtype must be float32 for caches of float32, not float16"),
        ({"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM).byte()}, "dtype must be given where caches are uint8"),
        ({"k_scale": -1}, "k_scale must be a number above 0, not -1"),
        ({"total": 1 << 31}, "total must be in 0 to 2147483647, not 2147483648"),
        ({"total": -1}, "total must be in 0 to 2147483647, not -1"),
    ],
)
def test_bad_arguments(by: dict[str, Any], message: str) -> None:
    keys, values = caches(torch.float32)
    tables, lengths = indices()
    given: dict[str, Any] = {"key_cache": keys, "value_cache": values, "block_tables": tables, "seq_lens": lengths}
    with pytest.raises(ArgumentError, match=f"gather_kv_cache: {message}"):
        metalcore.gather_kv_cache(**{**given, **by})
