"""copy_blocks and swap_blocks: bit for bit in any layout, lists of layers, pairs that are wrong or not independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError, IndexRangeError  # noqa: E402

BLOCKS = 6
PAIRS = [[5, 0], [5, 2], [1, 3]]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.uint8]


def cache(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Every pattern of bits."""
    random = torch.Generator().manual_seed(seed)
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * size), generator=random, dtype=torch.uint8).view(dtype)


def same_bits(a: Any, b: Any) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def moved(source: Any, target: Any, pairs: list[list[int]]) -> Any:
    out = target.clone()
    for a, b in pairs:
        out[b] = source[a]
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_bit_for_bit(dtype: Any) -> None:
    """Layers of several layouts; blocks of more than one chunk."""
    shapes = [((BLOCKS, 2, 3, 4, 5), (BLOCKS, 2, 15, 4)), ((BLOCKS, 1), (BLOCKS, 33)), ((BLOCKS, 70000), (BLOCKS, 3))]
    keys = [cache(k, dtype, i) for i, (k, _) in enumerate(shapes)]
    values = [cache(v, dtype, 10 + i) for i, (_, v) in enumerate(shapes)]
    expected = [moved(c, c, PAIRS) for c in (*keys, *values)]
    for index in (torch.int64, torch.int32):
        assert metalcore.copy_blocks(keys, tuple(values), torch.tensor(PAIRS, dtype=index)) is None
        assert all(same_bits(a, b) for a, b in zip((*keys, *values), expected, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_swap_bit_for_bit(dtype: Any) -> None:
    src, dst = cache((3, 2, 33), dtype, 1), cache((7, 2, 33), dtype, 2)
    pairs = [[2, 6], [2, 0], [0, 5]]
    expected = moved(src, dst, pairs)
    assert metalcore.swap_blocks(src, dst, torch.tensor(pairs)) is None
    assert same_bits(dst, expected)
    strided = cache((3, 2, 66), dtype, 1)[..., ::2]
    metalcore.swap_blocks(strided, dst, torch.tensor([[1, 1]]))
    assert same_bits(dst, moved(strided, expected, [[1, 1]]))


def test_a_block_onto_itself_and_no_pairs() -> None:
    keys, values = cache((4, 3), torch.float32), cache((4, 2), torch.float32, 1)
    before = keys.clone(), values.clone()
    metalcore.copy_blocks(keys, values, torch.tensor([[2, 2]]))
    metalcore.copy_blocks(keys, values, torch.zeros((0, 2), dtype=torch.int64))
    metalcore.swap_blocks(keys, keys, torch.tensor([[1, 1]]))
    assert metalcore.copy_blocks([], [], torch.tensor([[0, 1]])) is None
    assert same_bits(keys, before[0]) and same_bits(values, before[1])


WRONG = [
    ([[0, 1], [BLOCKS, 2]], "the source 6 in pair 1, which is out of range: it must be in 0 to 5"),
    ([[0, 1], [2, -1]], "the target -1 in pair 1, which is out of range: it must be in 0 to 5"),
    ([[-(1 << 40), 1]], f"the source {-(1 << 40)} in pair 0, which is out of range"),
    ([[0, 1], [2, 3], [4, 1]], "writes block 1 in pair 2, which an earlier pair writes too: pairs must be independent"),
    ([[0, 1], [1, 3]], "writes block 1 in pair 0, which is the source of another pair: pairs must be independent"),
]


@pytest.mark.parametrize("pairs, message", WRONG)
def test_wrong_pairs_write_nothing(pairs: list[list[int]], message: str) -> None:
    keys = [cache((BLOCKS, 5), torch.float32, i) for i in range(2)]
    values = [cache((BLOCKS, 4), torch.float32, i) for i in range(2, 4)]
    before = [c.clone() for c in (*keys, *values)]
    for _ in range(3):
        with pytest.raises(IndexRangeError, match=f"copy_blocks: block_mapping (has )?{message}"):
            metalcore.copy_blocks(keys, values, torch.tensor(pairs))
    with pytest.raises(IndexRangeError, match=message):
        metalcore.copy_blocks(keys[0].numpy(), values[0].numpy(), np.array(pairs))
    with pytest.raises(IndexRangeError, match=f"swap_blocks: block_mapping (has )?{message}"):
        metalcore.swap_blocks(keys[0], keys[0], torch.tensor(pairs))
    assert all(same_bits(a, b) for a, b in zip((*keys, *values), before, strict=True))


def test_between_two_arrays_a_source_may_be_a_target_too() -> None:
    src, dst = cache((3, 4), torch.float32), cache((3, 4), torch.float32, 1)
    expected = moved(src, dst, [[0, 1], [1, 2]])
    metalcore.swap_blocks(src, dst, torch.tensor([[0, 1], [1, 2]]))
    assert same_bits(dst, expected)
    with pytest.raises(IndexRangeError, match="block 1 in pair 1, which an earlier pair writes"):
        metalcore.swap_blocks(src, dst, torch.tensor([[0, 1], [2, 1]]))
    assert same_bits(dst, expected)


def test_many_pairs() -> None:
    """More pairs than one threadgroup checks; the last one is wrong."""
    keys, values = cache((2000, 2), torch.float32), cache((2000, 1), torch.float32, 1)
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(4)).reshape(2, 1000).T.contiguous()
    expected = keys.clone()
    expected[order[:, 1]] = keys[order[:, 0]]
    metalcore.copy_blocks(keys, values, order)
    assert same_bits(keys, expected)
    order[-1, 1] = order[3, 1]
    with pytest.raises(IndexRangeError, match="in pair 999, which an earlier pair writes too"):
        metalcore.copy_blocks(keys, values, order)
    assert same_bits(keys, expected)


def test_mlx_gives_new_caches() -> None:
    mx: Any = pytest.importorskip("mlx.core")
    metal: Any = pytest.importorskip("metalcore.mlx")
    arrays = [np.arange(BLOCKS * n, dtype=np.float32).reshape(BLOCKS, n) + n for n in (1, 5, 3, 33)]
    expected = [moved(torch.tensor(a), torch.tensor(a), PAIRS).numpy() for a in arrays]
    given = [mx.array(a) for a in arrays]
    keys, values = metal.copy_blocks(given[:2], given[2:], mx.array(PAIRS))
    for new, truth in zip((*keys, *values), expected, strict=True):
        assert np.array_equal(np.asarray(new), truth)
    one = metal.copy_blocks(given[0], given[2], mx.array(PAIRS))
    assert np.array_equal(np.asarray(one[0]), expected[0]) and np.array_equal(np.asarray(one[1]), expected[2])
    swapped = metal.swap_blocks(mx.zeros((2, 5)), given[1], mx.array([[1, 4]]))
    assert np.asarray(swapped)[4].tolist() == [0.0] * 5 and np.array_equal(np.asarray(swapped)[:4], arrays[1][:4])
    for old, before in zip(given, arrays, strict=True):
        assert np.array_equal(np.asarray(old), before)


@pytest.mark.parametrize(
    "keys, values, mapping, message",
    [
        (torch.zeros(2, 3), torch.zeros(4, 3), [[0, 1]], "value_caches must be of 2 blocks, as the first, not of 4"),
        (
            [torch.zeros(2, 3)] * 2,
            [torch.zeros(2, 3)],
            [[0, 1]],
            "value_caches must be as many as key_caches, 2, not 1",
        ),
        (
            [torch.zeros(2, 3)],
            torch.zeros(2, 3),
            [[0, 1]],
            "value_caches must be as many as key_caches, 1, not one array",
        ),
        ([torch.zeros(2)] * 2, [torch.zeros(2), torch.zeros(3)], [[0, 1]], r"value_caches\[1\] must be of 2 blocks"),
        (torch.zeros(2, 3), torch.zeros(2, 6)[:, ::2], [[0, 1]], "value_caches must be contiguous, as it is written"),
        (
            torch.zeros(2, dtype=torch.int64),
            torch.zeros(2),
            [[0, 1]],
            "key_caches must be float32, float16, bfloat16 or",
        ),
        (torch.zeros(2), torch.zeros(2), [[0, 1, 1]], r"block_mapping must be of shape \(pairs, 2\)"),
        (torch.zeros(2), torch.zeros(2), [[0.0, 1.0]], "block_mapping must be int64, int32 or uint32"),
    ],
)
def test_bad_arguments(keys: Any, values: Any, mapping: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"copy_blocks: {message}"):
        metalcore.copy_blocks(keys, values, torch.tensor(mapping))


@pytest.mark.parametrize(
    "src, dst, message",
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), r"src must be of shape \(2, 4\), not of shape \(2, 3\)"),
        (torch.zeros(2, 3).half(), torch.zeros(2, 3), "src must be of the dtype of dst, float32, not of dtype float16"),
        (torch.zeros(2, 3), torch.zeros(3, 2).T, "dst must be contiguous, as it is written in place"),
        (torch.zeros(2, 3, device="meta"), torch.zeros(2, 3), "src must be on the device of dst, cpu, not on meta"),
    ],
)
def test_bad_arguments_of_swap(src: Any, dst: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"swap_blocks: {message}"):
        metalcore.swap_blocks(src, dst, torch.tensor([[0, 1]]))
