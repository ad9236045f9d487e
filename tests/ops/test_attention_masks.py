"""What attention does not see never shows: masked keys that hold NaN or infinity, rows that see nothing, the future."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from tests.ops.attention_cases import assert_near, assert_same_bits, kernels, randn, results

attention = metalcore.scaled_dot_product_attention
KINDS = ("bool", "-inf", "causal", "window")
JUNK = (torch.nan, torch.inf, -torch.inf)


def hidden(kind: str, queries: int, keys: int, dtype: torch.dtype) -> tuple[dict[str, Any], Any]:
    """Arguments that mask keys, and which keys no query sees."""
    if kind == "causal":
        return {"is_causal": True}, torch.arange(keys) >= queries
    if kind == "window":
        return {"window_size": (3, 0)}, torch.arange(keys) < keys - queries - 3
    unseen = torch.arange(keys) % 3 == 1
    unseen[:34] = True
    mask = (~unseen).expand(queries, keys)
    if kind == "bool":
        return {"attn_mask": mask}, unseen
    return {"attn_mask": torch.zeros(queries, keys, dtype=dtype).masked_fill(~mask, -torch.inf)}, unseen


def poisoned(array: Any, where: Any) -> Any:
    """Junk of all kinds in the rows that are not seen."""
    junk = torch.tensor(JUNK, dtype=array.dtype).repeat(array.numel() // 3 + 1)[: array.numel()].reshape(array.shape)
    return torch.where(where[:, None], junk, array)


def arrays(heads: int, key_heads: int, queries: int, keys: int, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    q = randn(1, heads, queries, 64, seed=1, dtype=dtype)
    return q, *(randn(1, key_heads, keys, 64, seed=n, dtype=dtype) for n in (2, 3))


def is_hidden(kind: str, q: Any, k: Any, v: Any, launch: str, is_split: bool, **more: Any) -> bool:
    """Whether junk in unseen keys and values leaves the result of a call without a gradient as it is."""
    named, unseen = hidden(kind, q.shape[-2], k.shape[-2], q.dtype)
    named |= more
    assert unseen.any()
    plain = attention(q, k, v, **named)
    found, launched = kernels(lambda: attention(q, poisoned(k, unseen), poisoned(v, unseen), **named))
    assert launched[0].startswith(launch) and ("is_split=true" in launched[0]) == is_split
    return bool(torch.equal(found, plain)) and bool(plain.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_junk_in_masked_keys_stays_out(dtype: torch.dtype) -> None:
    """Forward and backward; unseen keys and values have the gradient 0."""
    q, k, v = arrays(2, 2, 40, 97, dtype)
    for kind in KINDS:
        named, unseen = hidden(kind, 40, 97, dtype)

        def run(*inputs: Any, named: dict[str, Any] = named) -> Any:
            return attention(*inputs, **named)

        def capped(*inputs: Any, named: dict[str, Any] = named) -> Any:
            return attention(*inputs, softcap=9.0, **named)

        junk = (q, poisoned(k, unseen), poisoned(v, unseen))
        assert_same_bits(results(capped, *junk), results(capped, q, k, v))
        expected, found = results(run, q, k, v), results(run, *junk)
        assert_same_bits(found, expected)
        assert not found[2][:, :, unseen].any() and not found[3][:, :, unseen].any()


@pytest.mark.sweep
def test_junk_in_masked_keys_stays_out_of_large_problems() -> None:
    """In float32 sums of few terms have kernels of their own."""
    q, k, v = arrays(4, 2, 100, 330, torch.float32)
    for kind in KINDS:
        named, unseen = hidden(kind, 100, 330, q.dtype)

        def run(*inputs: Any, named: dict[str, Any] = named) -> Any:
            return attention(*inputs, enable_gqa=True, **named)

        expected = results(run, q, k, v)
        assert all(x.isfinite().all() for x in expected)
        assert_same_bits(results(run, q, poisoned(k, unseen), poisoned(v, unseen)), expected)


def test_junk_stays_out_of_the_gradient_of_a_bias() -> None:
    q, k, v = arrays(2, 2, 40, 97, torch.float32)
    named, unseen = hidden("-inf", 40, 97, torch.float32)
    expected = results(attention, q, k, v, named["attn_mask"])
    found = results(attention, q, poisoned(k, unseen), poisoned(v, unseen), named["attn_mask"])
    assert_same_bits(found, expected)
    assert not found[4][:, unseen].any()


@pytest.mark.parametrize("kind", KINDS)
def test_junk_stays_out_of_decoding(kind: str) -> None:
    q, k, v = arrays(4, 2, 3, 200, torch.bfloat16)
    more = {"enable_gqa": True}
    assert is_hidden(kind, q, k, v, "attention_decode", False, **more)
    assert is_hidden(kind, q, k, v, "attention_decode", False, softcap=9.0, **more)
    q, k, v = arrays(1, 1, 3, 1100, torch.bfloat16)
    assert is_hidden(kind, q, k, v, "attention_decode", True)


@pytest.mark.parametrize("kind", KINDS)
def test_junk_stays_out_of_split_keys(kind: str) -> None:
    q, k, v = arrays(1, 1, 20, 1100, torch.bfloat16)
    assert is_hidden(kind, q, k, v, "attention_forward", True)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_junk_stays_out_of_decoding_in_float32(kind: str) -> None:
    q, k, v = arrays(16, 8, 3, 4096, torch.float32)
    assert is_hidden(kind, q, k, v, "attention_decode", False, enable_gqa=True)
    q, k, v = arrays(1, 1, 20, 2100, torch.float32)
    assert is_hidden(kind, q, k, v, "attention_forward", True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_key_shows_in_the_rows_alone_that_see_it(dtype: torch.dtype) -> None:
    q, k, v = arrays(1, 1, 65, 65, dtype)
    bad = torch.arange(65) == 40
    clean = attention(q, k, v, is_causal=True)
    for found in (
        attention(q, poisoned(k, bad), v, is_causal=True),
        attention(q, k, poisoned(v, bad), is_causal=True),
    ):
        assert torch.equal(found[:, :, :40], clean[:, :, :40])
        assert not found[:, :, 40:].isfinite().all(-1).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.sweep)])
def test_the_future_does_not_leak(dtype: torch.dtype) -> None:
    q, k, v = arrays(2, 2, 97, 97, dtype)
    expected = attention(q, k, v, is_causal=True)
    for first in (1, 31, 32, 33, 64, 96):
        later = (torch.arange(97) >= first)[:, None]
        found = attention(q, torch.where(later, k.flip(-2), k), torch.where(later, v + 100, v), is_causal=True)
        assert torch.equal(found[:, :, :first], expected[:, :, :first])
        assert not torch.equal(found, expected)


def rows_masked(kind: str, queries: int, keys: int, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments by which the first two queries see no key."""
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen[:2] = False
    if kind == "bool":
        return {"attn_mask": seen}
    if kind == "-inf":
        return {"attn_mask": torch.zeros(queries, keys, dtype=dtype).masked_fill(~seen, -torch.inf)}
    return {"window_size": (-1, 0)}  # two queries more than keys


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_see_nothing_are_zero(dtype: torch.dtype) -> None:
    for kind in ("bool", "-inf", "window"):
        q, k, v = arrays(2, 2, 35, 33, dtype)
        named = rows_masked(kind, 35, 33, dtype)

        def run(*inputs: Any, named: dict[str, Any] = named) -> Any:
            return attention(*inputs, **named)

        out, dq, dk, dv = results(run, q, k, v)
        assert not out[:, :, :2].any() and not dq[:, :, :2].any()
        assert out[:, :, 2:].any(-1).all() and all(x.isfinite().all() for x in (dq, dk, dv))
        _, lse = attention(q, k, v, **named, return_lse=True)
        assert (lse[:, :, :2] == -torch.inf).all() and lse[:, :, 2:].isfinite().all()
        # A query that sees nothing may hold anything.
        found = results(run, poisoned(q, torch.arange(35) < 2), k, v)
        assert_same_bits(found, [out, dq, dk, dv])
        first_rows = [x[:, :, :1].contiguous() for x in (q,)]
        if kind != "window":
            single = {"attn_mask": named["attn_mask"][:1]}
            assert not attention(*first_rows, k, v, **single).any()  # by the kernels of decoding


def test_rows_that_see_nothing_beside_a_sink() -> None:
    q, k, v = arrays(2, 2, 5, 7, torch.float32)
    sinks = randn(2, seed=5)
    mask = torch.zeros(5, 7, dtype=torch.bool)
    out, dq, dk, dv, ds = results(lambda *x: attention(*x[:3], mask, sinks=x[3]), q, k, v, sinks)
    assert not any(x.any() for x in (out, dq, dk, dv, ds))
    _, lse = attention(q, k, v, mask, sinks=sinks, return_lse=True)
    assert torch.allclose(lse, sinks[:, None].expand(1, 2, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_keys_and_no_queries(dtype: torch.dtype) -> None:
    for queries, keys in ((3, 0), (0, 3), (0, 0)):
        q, k, v = arrays(2, 2, queries, keys, dtype)
        bias = randn(1, 1, seed=4, dtype=dtype)
        found = results(lambda *x: attention(*x, return_lse=True), q, k, v, bias)
        shapes = [(1, 2, queries, 64), (1, 2, queries), q.shape, k.shape, v.shape, (1, 1)]
        assert [tuple(x.shape) for x in found] == [tuple(s) for s in shapes]
        assert not any(x.any() for i, x in enumerate(found) if i != 1)
        assert (found[1] == -torch.inf).all()
    for shape in ((0, 2, 3, 4), (2, 0, 3, 4)):
        empty = torch.zeros(shape, dtype=dtype)
        bias = torch.zeros(1, 3, dtype=dtype)
        found = results(attention, empty, empty, empty, bias)
        assert [tuple(x.shape) for x in found] == [shape, shape, shape, shape, (1, 3)]
        assert not found[4].any()


def test_a_mask_beside_causal() -> None:
    q, k, v = arrays(2, 2, 35, 33, torch.float32)
    seen = randn(35, 33, seed=8) > -0.5
    seen[:, 0] = True
    both = seen & torch.ones(35, 33, dtype=torch.bool).tril()
    expected = results(lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, both), q, k, v)
    assert_near(results(lambda *x: attention(*x, seen, is_causal=True), q, k, v), expected, 1e-6)
    added = torch.zeros(35, 33).masked_fill(~seen, -torch.inf)
    assert_near(results(lambda *x: attention(*x, added, is_causal=True), q, k, v), expected, 1e-6)


@pytest.mark.parametrize("keys", [1, 31, 33, 63, 65, 100])
def test_keys_that_fill_no_block(keys: int) -> None:
    """Behind the last key lies junk of the same memory."""
    room = torch.full((1, 1, keys + 40, 64), torch.nan)
    room[:, :, :keys] = randn(1, 1, keys, 64)
    q, k = randn(1, 1, 9, 64, seed=1), room[:, :, :keys]
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), k.double())
    assert_near([attention(q, k, k)], [expected], 1e-6)
    short = attention(q[:, :, :1].bfloat16(), k.bfloat16(), k.bfloat16())
    assert_near([short], [expected[:, :, :1]], 0.02)
