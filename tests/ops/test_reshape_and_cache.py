"""reshape_and_cache and reshape_and_cache_flash: bit for bit, fp8, wrong slots, what is written and what not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import metalcore  # noqa: E402
from metalcore.errors import ArgumentError, IndexRangeError  # noqa: E402
from metalcore.health import cases  # noqa: E402

TOKENS, HEADS, DIM, VALUE_DIM, BLOCKS, BLOCK, X = 9, 2, 8, 5, 4, 3, 4
SLOTS = [11, -1, 0, 5, 7, -1, 2, 10, 4]
NAMES = ("reshape_and_cache", "reshape_and_cache_flash")
both = pytest.mark.parametrize("name", NAMES)


def random_bits(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Every pattern of bits, NaN with all its payloads too."""
    random = torch.Generator().manual_seed(seed)
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * size), generator=random, dtype=torch.uint8).view(dtype)


def caches(name: str, dtype: Any) -> tuple[Any, Any]:
    if name == "reshape_and_cache":
        shapes: tuple[tuple[int, ...], ...] = (
            (BLOCKS, HEADS, DIM // X, BLOCK, X),
            (BLOCKS, HEADS, VALUE_DIM, BLOCK),
        )
    else:
        shapes = ((BLOCKS, BLOCK, HEADS, DIM), (BLOCKS, BLOCK, HEADS, VALUE_DIM))
    return random_bits(shapes[0], dtype, 1), random_bits(shapes[1], dtype, 2)


def rows(dtype: Any) -> tuple[Any, Any]:
    """Key and value as parts of one larger tensor, as a fused projection gives them."""
    wide = random_bits((TOKENS, HEADS, DIM + VALUE_DIM + 3), dtype)
    return wide[..., 1 : DIM + 1], wide[..., DIM + 1 : DIM + 1 + VALUE_DIM]


def same_bits(a: Any, b: Any) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.sweep
def test_bit_for_bit(name: str, dtype: Any, index: Any) -> None:
    check_bits(name, dtype, index)


@both
def test_bits_of_bfloat16(name: str) -> None:
    check_bits(name, torch.bfloat16, torch.int64)


def check_bits(name: str, dtype: Any, index: Any) -> None:
    (key, value), slots = rows(dtype), torch.tensor(SLOTS, dtype=index)
    assert not key.is_contiguous()
    ours, expected = caches(name, dtype), caches(name, dtype)
    cases.find(name).reference(key, value, *expected, slots)
    for _ in range(3):  # the second call is remembered, the third one repeated in C
        assert getattr(metalcore, name)(key, value, *ours, slots) is None
        assert all(same_bits(a, b) for a, b in zip(ours, expected, strict=True))
    assert not same_bits(ours[0], caches(name, dtype)[0])


def test_both_layouts_hold_the_same() -> None:
    key, value = rows(torch.float32)
    slots = torch.tensor(SLOTS)
    a, b = caches(NAMES[0], torch.float32), caches(NAMES[1], torch.float32)
    metalcore.reshape_and_cache(key, value, *a, slots)
    metalcore.reshape_and_cache_flash(key, value, *b, slots)
    for token, slot in enumerate(SLOTS):
        if slot >= 0:
            block, offset = divmod(slot, BLOCK)
            assert same_bits(a[0][block, :, :, offset].flatten(1), key[token])
            assert same_bits(a[1][block, :, :, offset], value[token])
            assert same_bits(b[0][block, offset], key[token]) and same_bits(b[1][block, offset], value[token])


@both
@pytest.mark.parametrize("kind", ["fp8", "fp8_e4m3"])
def test_fp8(name: str, kind: str) -> None:
    """Every half that there is, over a scale."""
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16).view(256, 4, 64)
    shapes = ((64, 4, 8, 4, 8), (64, 4, 64, 4)) if name == "reshape_and_cache" else ((64, 4, 4, 64),) * 2
    keys, values = (torch.zeros(s, dtype=torch.uint8) for s in shapes)
    slots = torch.randperm(256, generator=torch.Generator().manual_seed(3))
    getattr(metalcore, name)(x, x, keys, values, slots, kind, 0.37, torch.tensor([64.0]))
    for cache, scale in ((keys, 0.37), (values, 64.0)):
        expected = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        if name == "reshape_and_cache":
            back = cache.permute(0, 3, 1, 2, 4) if cache.dim() == 5 else cache.permute(0, 3, 1, 2)
            found = back.reshape(256, 4, 64)[slots]
        else:
            found = cache.flatten(0, 1)[slots]
        assert torch.equal(found, expected)
        assert len(found.unique()) > 250  # nearly all codes


@both
@pytest.mark.parametrize("slot", [-2, BLOCKS * BLOCK, 1 << 40, -(1 << 50)])
def test_a_wrong_slot_writes_nothing(name: str, slot: int) -> None:
    key, value = rows(torch.float32)
    slots = torch.tensor(SLOTS)
    ours, before = caches(name, torch.float32), caches(name, torch.float32)
    run = getattr(metalcore, name)
    run(key, value, *[c.clone() for c in ours], slots)  # remembered with right slots
    slots[6], slots[8] = slot, slot
    for _ in range(3):
        with pytest.raises(
            IndexRangeError, match=rf"{name}: slot_mapping has the slot {slot} for token 6: .* 0 to 11,"
        ):
            run(key, value, *ours, slots)
        assert all(same_bits(a, b) for a, b in zip(ours, before, strict=True))
    arrays = [x.contiguous().numpy() for x in (key, value, *ours)]
    with pytest.raises(IndexRangeError, match="for token 6"):
        run(*arrays, slots.numpy())
    assert all(same_bits(a, b) for a, b in zip(ours, before, strict=True))


@both
def test_on_a_gpu_a_wrong_slot_is_skipped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from metalcore.health.routes import text_mps, torch_ops_on

    key, value = rows(torch.float16)
    wrong, right = torch.tensor(SLOTS), torch.tensor(SLOTS)
    wrong[1], wrong[5], right[1], right[5] = -9, 1000, -1, -1
    ours, expected = caches(name, torch.float16), caches(name, torch.float16)
    run = getattr(metalcore, name)
    run(key, value, *expected, right)
    with torch_ops_on(text_mps()):
        run(key, value, *ours, wrong)
    assert all(same_bits(a, b) for a, b in zip(ours, expected, strict=True))
    monkeypatch.setenv("METALCORE_CHECK_GPU", "1")
    with torch_ops_on(text_mps()), pytest.raises(IndexRangeError, match="the slot -9 for token 1"):
        run(key, value, *ours, wrong)


@both
def test_mlx_gives_new_caches(name: str) -> None:
    mx: Any = pytest.importorskip("mlx.core")
    metal: Any = pytest.importorskip("metalcore.mlx")
    arrays = [np.asarray(x.nan_to_num(0.5)) for x in (*rows(torch.float32), *caches(name, torch.float32))]
    expected = [a.copy() for a in arrays[2:]]
    getattr(metalcore, name)(*arrays[:2], *expected, np.array(SLOTS))
    given = [mx.array(a) for a in arrays]
    found = getattr(metal, name)(*given, mx.array(SLOTS))
    for new, old, truth, before in zip(found, given[2:], expected, arrays[2:], strict=True):
        assert np.array_equal(np.asarray(new), truth)
        assert np.array_equal(np.asarray(old), before)  # what was given is as it was


def test_autograd_hears_of_the_change() -> None:
    """A value that autograd keeps must not be changed unnoticed."""
    key, value = torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    weight = torch.ones(2, requires_grad=True)
    keys, values = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2)
    product = (keys * weight).sum()
    versions = keys._version
    metalcore.reshape_and_cache_flash(key, value, keys, values, torch.tensor([0]))
    assert keys._version > versions
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with pytest.raises(RuntimeError, match="has no gradient"):
        metalcore.reshape_and_cache_flash(key * weight, value, keys, values, torch.tensor([0]))


def test_no_tokens_and_no_blocks() -> None:
    keys, values = torch.full((2, 3, 1, 4), 7.0), torch.full((2, 3, 1, 4), 8.0)
    none = torch.zeros(0, 1, 4)
    assert metalcore.reshape_and_cache_flash(none, none, keys, values, torch.zeros(0, dtype=torch.int64)) is None
    view = torch.zeros(0, 1, 9)[..., 1::2]  # begins behind its storage, which is empty
    assert view.storage_offset() == 1 and view.untyped_storage().nbytes() == 0
    metalcore.reshape_and_cache_flash(view, none, keys, values, torch.zeros(0, dtype=torch.int64))
    assert (keys == 7).all() and (values == 8).all()
    with pytest.raises(IndexRangeError, match="slot 0 for token 0"):
        one = torch.ones(1, 1, 4)
        metalcore.reshape_and_cache_flash(one, one, keys[:0], values[:0], torch.tensor([0]))


def changed(**by: Any) -> dict[str, Any]:
    key, value = rows(torch.float32)
    keys, values = caches("reshape_and_cache_flash", torch.float32)
    usual = {"key": key, "value": value, "key_cache": keys, "value_cache": values, "slot_mapping": torch.tensor(SLOTS)}
    return {**usual, **by}


@pytest.mark.parametrize(
    "by, message",
    [
        (
            {"key": torch.zeros(TOKENS, HEADS, DIM, dtype=torch.int32)},
            "key must be float32, float16 or bfloat16, not of",
        ),
        ({"key": torch.zeros(TOKENS, HEADS, DIM).double()}, "key must be float32, float16 or bfloat16, not of"),
        ({"key": torch.zeros(TOKENS, HEADS)}, r"key must be \(tokens, heads, head_dim\), not of shape"),
        ({"value": torch.zeros(TOKENS, HEADS, VALUE_DIM).half()}, "value must be of the key's dtype float32"),
        ({"value": torch.zeros(TOKENS, HEADS + 1, VALUE_DIM)}, r"value must be \(9, 2, head_dim\), as the key"),
        ({"slot_mapping": torch.zeros(TOKENS)}, "slot_mapping must be int64, int32 or uint32"),
        (
            {"slot_mapping": torch.zeros(3, dtype=torch.int64)},
            r"slot_mapping must be of shape \(9,\), one slot a token",
        ),
        ({"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM + 1)}, r"key_cache must be of shape .* 2, 8\), not"),
        ({"value_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM)}, r"value_cache must be of shape \(4, 3, 2, 5\)"),
        (
            {"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM).half()},
            "key_cache must be float32 where kv_cache_dtype",
        ),
        ({"kv_cache_dtype": "fp8"}, "key_cache must be uint8 where kv_cache_dtype is fp8, not of dtype float32"),
        ({"kv_cache_dtype": "int8"}, "kv_cache_dtype must be auto, fp8 or fp8_e4m3, not 'int8'"),
        ({"k_scale": 0.0}, "k_scale must be a number above 0, not 0.0"),
        ({"v_scale": float("nan")}, "v_scale must be a number above 0, not nan"),
        ({"v_scale": torch.ones(2)}, "v_scale must be a number above 0"),
        ({"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, 2 * DIM)[..., ::2]}, "key_cache must be contiguous, as it is"),
        (
            {"key_cache": torch.zeros(BLOCKS, BLOCK, HEADS, DIM, device="meta")},
            "key_cache must be on the device of key",
        ),
    ],
)
def test_bad_arguments(by: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"reshape_and_cache_flash: {message}"):
        metalcore.reshape_and_cache_flash(**changed(**by))


def test_an_array_that_must_not_be_written() -> None:
    key = np.zeros((1, 1, 2), np.float32)
    keys, values = np.zeros((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    keys.flags.writeable = False
    with pytest.raises(ArgumentError, match="key_cache must be an array that may be written, not a read-only one"):
        metalcore.reshape_and_cache_flash(key, key, keys, values, np.array([0]))


def test_hugging_face_layout_is_checked() -> None:
    key, value = rows(torch.float32)
    keys, values = caches("reshape_and_cache", torch.float32)
    with pytest.raises(ArgumentError, match=r"key_cache must be \(blocks, 2, 8 / x, block_size, x\), not of shape"):
        metalcore.reshape_and_cache(key, value, keys[..., :3].contiguous(), values, torch.tensor(SLOTS))
    with pytest.raises(ArgumentError, match=r"value_cache must be of shape \(4, 2, 5, 3\)"):
        metalcore.reshape_and_cache(key, value, keys, values.permute(0, 1, 3, 2).contiguous(), torch.tensor(SLOTS))
