"""Gradients of attention, proven on the kernels' own source: float is read as double."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.ops.base import attention as attention_plans
from tests.ops.attention_cases import assert_same_bits, kernels, randn, results

attention = metalcore.scaled_dot_product_attention
HEADS, QUERIES, KEYS, DEPTH, WIDTH = 2, 4, 5, 3, 2


def double(*shape: int, seed: int = 0, grad: bool = True) -> Any:
    return randn(*shape, seed=seed, dtype=torch.float64, grad=grad)


def checked(
    extra: list[Any] | None = None, key_heads: int = HEADS, queries: int = QUERIES, keys: int = KEYS, **named: Any
) -> bool:
    """gradcheck of result and logarithm of the sums by query, key, value, and what else is given by name."""
    inputs = [double(2, HEADS, queries, DEPTH), double(2, key_heads, keys, DEPTH, seed=1)]
    inputs += [double(2, key_heads, keys, WIDTH, seed=2), *(extra or [])]
    names = ("attn_mask",) if extra and extra[0].ndim != 1 else ("sinks",)

    def run(q: Any, k: Any, v: Any, *more: Any) -> Any:
        torch.manual_seed(11)  # the same weights are dropped in every call
        out, lse = attention(q, k, v, **named, **dict(zip(names, more, strict=False)), return_lse=True)
        # Rows that see nothing have -infinity, whose difference is no number.
        return out, lse.where(lse.isfinite(), 0.0)

    return bool(torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6, rtol=1e-5))


def masked_bias(*shape: int) -> Any:
    bias = double(*shape, grad=False)
    bias[..., 1, :] = -torch.inf
    bias[..., 2] = -torch.inf
    return bias


FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"is_causal": True},
    "causal of more queries": {"is_causal": True, "queries": 7},
    "window": {"window_size": (1, 1)},
    "window of more queries": {"window_size": (1, 0), "queries": 7},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": double(HEADS, seed=4, grad=False).abs()},
    "alibi by batch": {"alibi_slopes": double(2, HEADS, seed=4, grad=False).abs(), "softcap": 2.0},
    "gqa": {"key_heads": 1, "enable_gqa": True},
    "bool mask": {"attn_mask": double(2, 1, QUERIES, KEYS, seed=6, grad=False) > -0.5},
    "bool mask of whole rows": {"attn_mask": torch.tensor([[True], [False], [True], [True]])},
    "-infinity": {"attn_mask": masked_bias(QUERIES, KEYS)},
    "bias": {"extra": [double(2, HEADS, QUERIES, KEYS, seed=7)]},
    "bias of a head": {"extra": [double(HEADS, 1, KEYS, seed=7)], "is_causal": True},
    "bias of a query": {"extra": [double(2, 1, QUERIES, 1, seed=7)], "window_size": (2, 2)},
    "bias of a key": {"extra": [double(1, KEYS, seed=7)], "softcap": 1.0},
    "bias for all": {"extra": [double(1, 1, seed=7)]},
    "sinks": {"extra": [double(HEADS, seed=8)]},
    "sinks and a mask": {"extra": [double(HEADS, seed=8)], "is_causal": True, "softcap": 1.0},
    "dropout": {"dropout_p": 0.4},
    "dropout with a bias": {"dropout_p": 0.3, "extra": [double(HEADS, QUERIES, KEYS, seed=7)]},
    "dropout with sinks": {"dropout_p": 0.3, "extra": [double(HEADS, seed=8)]},
}


@pytest.mark.sweep
@pytest.mark.parametrize("feature", FEATURES)
def test_gradcheck(feature: str) -> None:
    assert checked(**FEATURES[feature])


def test_gradcheck_of_most_features() -> None:
    bias = double(HEADS, 1, KEYS, seed=7)
    assert checked([bias], 1, dropout_p=0.3, is_causal=True, enable_gqa=True, softcap=2.0, window_size=(2, 2))


@pytest.mark.sweep
def test_gradcheck_over_several_blocks() -> None:
    """Past 32 rows of each side, and past 256 keys, from where on delta is do . o."""
    q, k, v = double(1, 1, 3, 2), double(1, 1, 300, 2, seed=1), double(1, 1, 300, 1, seed=2)
    assert torch.autograd.gradcheck(lambda *x: attention(*x), (q, k, v), eps=1e-6, atol=1e-6, rtol=1e-5)
    q, k, v = double(1, 2, 40, 2), double(1, 1, 35, 2, seed=1), double(1, 1, 35, 1, seed=2)
    run = lambda *x: attention(*x, is_causal=True, enable_gqa=True)  # noqa: E731
    assert torch.autograd.gradcheck(run, (q, k, v), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(5, 6), (1, 6), (5, 1), (2, 5, 6), (3, 1, 1, 6), (1,), ()])
def test_the_gradient_of_a_bias_has_its_shape(shape: tuple[int, ...]) -> None:
    q, k, v = (randn(3, 2, n, 8, seed=n, dtype=torch.bfloat16) for n in (5, 6, 6))
    bias = randn(*shape, dtype=torch.bfloat16, grad=True)
    (found,) = torch.autograd.grad(attention(q, k, v, bias).sum(), bias)
    same = bias.detach().double().requires_grad_()
    truth = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), same.expand(5, 6) if same.ndim < 2 else same
    )
    (expected,) = torch.autograd.grad(truth.sum(), same)
    assert (found.shape, found.dtype) == (bias.shape, bias.dtype)
    assert (found.double() - expected).abs().max() <= 0.02


def bias_of(heads: int, queries: int, keys: int) -> Any:
    bias = randn(heads, queries, keys, seed=5)
    bias[..., 3] = -torch.inf
    return bias


JOINT: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "window": {"window_size": (20, 3)},
    "softcap": {"softcap": 1.0, "is_causal": True},
    "alibi": {"alibi_slopes": randn(4, seed=4).abs()},
    "gqa": {"heads": 12, "enable_gqa": True},
    "bool mask": {"attn_mask": randn(1, 1, 150, 180, seed=6) > -0.5},
    "bias": {"attn_mask": bias_of(4, 150, 180)},
    "sinks": {"sinks": randn(4, seed=8)},
    "dropout": {"dropout_p": 0.3},
    "all": {"heads": 8, "enable_gqa": True, "attn_mask": bias_of(1, 150, 180), "dropout_p": 0.3, "is_causal": True},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("feature", JOINT)
def test_one_pass_over_the_scores_gives_the_bits_of_two(
    feature: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and columns that fill no block, and a NaN in a key that is not seen."""
    named = {"heads": 4} | JOINT[feature]
    query, key = randn(2, named.pop("heads"), 150, 40, dtype=dtype), randn(2, 4, 180, 40, seed=1, dtype=dtype)
    value = randn(2, 4, 180, 24, seed=2, dtype=dtype)
    if isinstance(bias := named.get("attn_mask"), torch.Tensor) and bias.dtype != torch.bool:
        named["attn_mask"], key[..., 3, :] = bias.to(dtype), torch.nan

    def run(*x: Any) -> Any:
        torch.manual_seed(11)
        return attention(*x, **named)

    joint, launched = kernels(lambda: results(run, query, key, value))
    assert any("joint_gradient" in name for name in launched)
    policy = attention_plans.policy
    monkeypatch.setattr(attention_plans, "policy", lambda *x: policy(*x) | {"joint_heads": 0})
    apart, launched = kernels(lambda: results(run, query, key, value))
    assert any("query_gradient" in name for name in launched)
    assert_same_bits(joint, apart)
    assert all(x.isfinite().all() for x in joint)
