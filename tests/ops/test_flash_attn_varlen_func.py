"""flash_attn_varlen_func: the error rule, gradients, dropout, empty sequences, and the path over a block table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.health.cases.base.attention import kept_by_dropout
from metalcore.health.cases.base.attention import reference as plain
from metalcore.ops.base.op import FLOATS
from tests.ops.attention_cases import assert_near, assert_same_bits, randn, results
from tests.ops.sequence_cases import VARLEN, problems, varlen_case

NOUN = "flash_attn_varlen_func"
CASES = 40
attention = metalcore.flash_attn_varlen_func


def starts(*lengths: int, dtype: torch.dtype = torch.int32) -> Any:
    return torch.tensor([0, *np.cumsum(lengths)], dtype=dtype)


def packed(queries: tuple[int, ...], keys: tuple[int, ...], heads: int = 2, key_heads: int = 2, depth: int = 5) -> Any:
    """q, k, v in float64, and what names their sequences."""
    shapes = ((sum(queries), heads, depth), (sum(keys), key_heads, depth), (sum(keys), key_heads, 3))
    inputs = [randn(*shape, seed=i, dtype=torch.float64) for i, shape in enumerate(shapes)]
    return inputs, (starts(*queries), starts(*keys), max(queries), max(keys))


def by_sequence(q: Any, k: Any, v: Any, parts: Any, kept: Any = None, slopes: Any = None, **named: Any) -> Any:
    """Result and logarithm of the sums, (heads, tokens), with autograd."""
    a, b = parts[0].tolist(), parts[1].tolist()
    outs, sums = [], []
    for s in range(len(a) - 1):
        rows = [x[i[s] : i[s + 1]].transpose(0, 1) for x, i in ((q, a), (k, b), (v, b))]
        if slopes is not None:
            named["alibi_slopes"] = slopes[s]
        if kept is not None:
            named["kept"] = kept[s][:, : a[s + 1] - a[s], : b[s + 1] - b[s]]
        out, lse = plain(*rows, **named)
        outs.append(out.transpose(0, 1))
        sums.append(lse)
    return torch.cat(outs), torch.cat(sums, -1)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("feature", VARLEN)
def test_error_rule(feature: str, dtype: str) -> None:
    assert (
        problems(NOUN, varlen_case, dtype, {feature, *(["causal"] if feature == "cross" else [])}, range(CASES)) == []
    )


SEVERAL = [{"cross", "window", "gqa"}, {"empty", "causal", "alibi"}, {"softcap", "slopes by sequence", "wide", "cross"}]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("which", range(len(SEVERAL)))
def test_error_rule_of_several_features(which: int, dtype: str) -> None:
    assert problems(NOUN, varlen_case, dtype, SEVERAL[which], range(CASES)) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_error_rule_of_some(dtype: str) -> None:
    features = {"causal", "cross", "gqa", "softcap", "window", "empty", "slopes by sequence"}
    assert problems(NOUN, varlen_case, dtype, features, range(2)) == []


GRADIENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"softmax_scale": 0.3},
    "causal": {"causal": True},
    "window": {"window_size": (1, 1)},
    "window of one side": {"window_size": (2, -1), "causal": True},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": randn(2, seed=4, dtype=torch.float64).abs()},
    "alibi by sequence": {"alibi_slopes": randn(4, 2, seed=4, dtype=torch.float64).abs(), "softcap": 2.0},
    "dropout": {"dropout_p": 0.4},
    "all": {"dropout_p": 0.3, "causal": True, "softcap": 2.0, "window_size": (2, -1), "alibi_slopes": torch.ones(2)},
}


@pytest.mark.sweep
@pytest.mark.parametrize("key_heads", [2, 1])
@pytest.mark.parametrize(
    "feature", [pytest.param(f, marks=[] if f == "all" else [pytest.mark.sweep]) for f in GRADIENTS]
)
def test_gradcheck(feature: str, key_heads: int) -> None:
    """On the kernels' own source, float read as double; result and logarithm of the sums, by q, k and v."""
    inputs, parts = packed((3, 0, 2, 1), (2, 3, 4, 0), key_heads=key_heads)

    def run(*x: Any) -> Any:
        torch.manual_seed(11)  # the same weights are dropped in every call
        out, lse, _ = attention(*x, *parts, **GRADIENTS[feature], return_attn_probs=True)
        return out, lse.where(lse.isfinite(), 0.0)

    inputs = [x.requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.sweep
def test_gradcheck_over_several_blocks() -> None:
    """Past 32 rows of each side, and past 256 keys, from where on delta is do . o."""
    for queries, keys in (((35, 2), (3, 40)), ((1, 2), (300, 3))):
        shapes = ((sum(queries), 2, 2), (sum(keys), 1, 2), (sum(keys), 1, 1))
        inputs = [randn(*shape, seed=i, dtype=torch.float64, grad=True) for i, shape in enumerate(shapes)]
        parts = (starts(*queries), starts(*keys), max(queries), max(keys))
        run = lambda *x: attention(*x, *parts, causal=True)  # noqa: B023, E731
        assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.sweep
def test_the_logarithm_of_the_sums_and_its_gradient() -> None:
    inputs, parts = packed((3, 0, 40, 1), (2, 3, 45, 70), heads=4)
    slopes = randn(4, 4, seed=8).abs()
    named = {"causal": True, "softcap": 3.0, "alibi_slopes": slopes, "return_attn_probs": True}

    def ours(*x: Any) -> Any:
        out, lse, nothing = attention(*x, *parts, **named)
        assert nothing is None and lse.shape == (4, 44)
        return out, lse.where(lse.isfinite(), 0.0)

    def reference(*x: Any) -> Any:
        out, lse = by_sequence(*x, parts, softcap=3.0, window_size=(-1, 0), slopes=slopes)
        return out, lse.where(lse.isfinite(), 0.0)

    single = [x.float() for x in inputs]
    assert_near(results(ours, *single), results(reference, *(x.double() for x in single)), 3e-6)
    lse = attention(*single, *parts, causal=True, return_attn_probs=True)[1]
    assert lse.dtype == torch.float32 and lse.isinf().sum() == 4 and lse[:, 0].isneginf().all()  # 3 queries, 2 keys


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ten_runs_have_the_same_bits(dtype: torch.dtype) -> None:
    inputs, parts = packed((70, 0, 45, 3), (45, 8, 90, 300), heads=4, depth=33)

    def run(*x: Any) -> Any:
        torch.manual_seed(3)
        found = attention(*x, *parts, 0.2, causal=True, softcap=9.0, window_size=(60, -1), return_attn_probs=True)
        return found[:2]

    inputs = [x.to(dtype) for x in inputs]
    first = results(run, *inputs)
    assert len(first) == 5
    for _ in range(9):
        assert_same_bits(results(run, *inputs), first)


def stays(start: int, queries: tuple[int, ...], keys: tuple[int, ...], heads: int, probability: float) -> Any:
    """Which weights stay, (sequences, heads, most queries, most keys): a head of a sequence counts as in a batch."""
    torch.manual_seed(start)
    seed = int(torch.randint(0, 1 << 62, (1,), dtype=torch.int64))
    found = kept_by_dropout(seed, len(queries) * heads, max(queries), max(keys), probability)
    return torch.from_numpy(found).reshape(len(queries), heads, max(queries), max(keys))


def test_the_weights_that_stay_are_those_of_philox() -> None:
    """Values that are the unit matrix show the weights."""
    queries, keys = (40, 3), (50, 37)
    q, k = randn(43, 2, 8), randn(87, 2, 8, seed=1)
    v = torch.cat([torch.eye(n, 50) for n in keys])[:, None].expand(87, 2, 50)
    torch.manual_seed(5)
    found = attention(q, k, v, starts(*queries), starts(*keys), 40, 50, dropout_p=0.5)
    kept = stays(5, queries, keys, 2, 0.5)
    for s, (first, rows, columns) in enumerate(((0, 40, 50), (40, 3, 37))):
        shown = found[first : first + rows].transpose(0, 1) != 0
        assert torch.equal(shown[..., :columns], kept[s, :, :rows, :columns])
        assert not shown[..., columns:].any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_gradients_drop_the_same_weights(dtype: torch.dtype, tolerance: float) -> None:
    queries, keys = (40, 0, 5), (70, 3, 33)
    inputs, parts = packed(queries, keys, heads=4, depth=33)
    inputs = [x.to(dtype) for x in inputs]

    def ours(*x: Any) -> Any:
        torch.manual_seed(7)
        return attention(*x, *parts, dropout_p=0.3, causal=True, softcap=9.0)

    def reference(*x: Any) -> Any:
        kept = stays(7, queries, keys, 4, 0.3)
        return by_sequence(*x, parts, kept, softcap=9.0, window_size=(-1, 0), dropout_p=0.3)[0]

    assert_near(results(ours, *inputs), results(reference, *(x.double() for x in inputs)), tolerance)


def test_a_sequence_alone_has_the_bits_of_dense_attention_of_it() -> None:
    lengths = (70, 33, 1)
    x = randn(104, 2, 64)
    found = attention(x, x, x, starts(*lengths), starts(*lengths), 70, 70, causal=True)
    one = [t[None] for t in x.split(lengths)]
    expected = torch.cat([metalcore.flash_attn_func(t, t, t, causal=True)[0] for t in one])
    assert_near([found], [expected], 1e-6)


def test_causal_is_aligned_at_the_last_query_and_key() -> None:
    """With more queries than keys the first ones see nothing, and are 0."""
    q, k = randn(6, 1, 4), randn(6, 1, 4, seed=1)
    found = attention(q, k, k, starts(4, 2), starts(2, 4), 4, 4, causal=True)
    assert not found[:2].any()
    assert torch.equal(found[2], k[0])  # the third of four queries over two keys sees the first
    rows = torch.nn.functional.scaled_dot_product_attention(
        q[4:].transpose(0, 1), k[2:].transpose(0, 1), k[2:].transpose(0, 1), torch.ones(2, 4).tril(2).bool()
    )
    assert_near([found[4:]], [rows.transpose(0, 1)], 1e-6)


@pytest.mark.parametrize("queries, keys", [((0, 0), (0, 0)), ((0, 0), (3, 2)), ((3, 2), (0, 0)), ((3, 0), (0, 5))])
def test_nothing_to_attend_to(queries: tuple[int, int], keys: tuple[int, int]) -> None:
    inputs, parts = packed(queries, keys)
    inputs = [x.float().requires_grad_() for x in inputs]
    out, lse, _ = attention(*inputs, *parts, return_attn_probs=True)
    assert out.shape == (sum(queries), 2, 3) and not out.any()
    assert lse.shape == (2, sum(queries)) and lse.isneginf().all()
    gradients = torch.autograd.grad(out, inputs, torch.ones_like(out))
    assert [g.shape for g in gradients] == [x.shape for x in inputs]
    assert not any(g.any() for g in gradients)


def test_no_sequences() -> None:
    x = torch.zeros(0, 2, 4, requires_grad=True)
    out = attention(x, x, x, starts(), starts(), 0, 0, causal=True)
    assert out.shape == (0, 2, 4)
    assert torch.autograd.grad(out.sum(), x)[0].shape == (0, 2, 4)


@pytest.mark.parametrize("is_causal", [True, False])
def test_over_a_block_table(is_causal: bool) -> None:
    queries = (1, 1, 1) if not is_causal else (5, 1, 12)
    keys = (40, 1, 33)
    cache = [randn(20, 8, 2, 16, seed=i) for i in (1, 2)]
    tables = torch.randperm(20, generator=torch.Generator().manual_seed(0))[:15].reshape(3, 5)
    q = randn(sum(queries), 4, 16)
    slopes = randn(4, seed=5).abs()
    parts = (starts(*queries), starts(*keys), max(queries), max(keys))
    named: dict[str, Any] = {"softcap": 5.0, "window_size": (20, -1), "causal": is_causal, "alibi_slopes": slopes}
    found = attention(q, *cache, *parts, **named, block_table=tables)
    rows = [torch.cat([c[tables[s]].flatten(0, 1)[:n] for s, n in enumerate(keys)]) for c in cache]
    assert_near([found], [attention(q, *rows, *parts, **named)], 1e-6)


def test_numpy() -> None:
    inputs, parts = packed((3, 4), (5, 2))
    arrays = [x.float() for x in inputs]
    found = attention(*(x.numpy() for x in arrays), *(x.numpy() for x in parts[:2]), *parts[2:], causal=True)
    assert isinstance(found, np.ndarray) and np.array_equal(found, attention(*arrays, *parts, causal=True).numpy())
