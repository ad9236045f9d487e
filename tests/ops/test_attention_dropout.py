"""Dropout of attention: the same weights in forward, backward and the reference, by torch's generator, never stored."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.health.cases.base.attention import kept_by_dropout
from metalcore.health.cases.base.attention import reference as plain
from tests.ops.attention_cases import assert_near, assert_same_bits, randn, results

attention = metalcore.scaled_dot_product_attention


def seed_of(start: int) -> int:
    """What the op draws after torch.manual_seed(start)."""
    torch.manual_seed(start)
    return int(torch.randint(0, 1 << 62, (1,), dtype=torch.int64))


def kept(start: int, shape: tuple[int, int, int, int], probability: float) -> Any:
    batch, heads, queries, keys = shape
    found = kept_by_dropout(seed_of(start), batch * heads, queries, keys, probability)
    return torch.from_numpy(found).reshape(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_weights_that_stay_are_those_of_philox(dtype: torch.dtype) -> None:
    """Values that are the unit matrix show the weights."""
    q, k = randn(2, 3, 40, 33, dtype=dtype), randn(2, 3, 70, 33, seed=1, dtype=dtype)
    v = torch.eye(70, dtype=dtype).expand(2, 3, 70, 70)
    for probability in (0.1, 0.5, 0.9):
        torch.manual_seed(5)
        found = attention(q, k, v, dropout_p=probability)
        stays = kept(5, (2, 3, 40, 70), probability)
        assert torch.equal(found != 0, stays)
        # 16,800 draws: five standard deviations
        assert abs(stays.double().mean() - (1 - probability)) < 5 * (probability * (1 - probability) / 16800) ** 0.5
        weights = attention(q, k, v).double() / (1 - probability)
        assert_near([found.double()], [weights * stays], 1e-6 if dtype == torch.float32 else 0.02)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_gradients_drop_the_same_weights(dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = (randn(2, h, n, 33, seed=n, dtype=dtype) for h, n in ((4, 40), (2, 70), (2, 70)))
    sinks = randn(4, seed=6)

    def ours(*x: Any) -> Any:
        torch.manual_seed(7)
        return attention(*x[:3], dropout_p=0.3, is_causal=True, enable_gqa=True, sinks=x[3], softcap=9.0)

    def reference(*x: Any) -> Any:
        stays = kept(7, (2, 4, 40, 70), 0.3)
        return plain(*x[:3], is_causal=True, sinks=x[3], softcap=9.0, kept=stays, dropout_p=0.3)[0]

    expected = results(reference, *(x.double() for x in (q, k, v, sinks)))
    assert_near(results(ours, q, k, v, sinks), expected, tolerance)


def test_the_logarithm_of_the_sums_knows_no_dropout() -> None:
    q = randn(1, 2, 33, 16)
    _, expected = attention(q, q, q, return_lse=True)
    _, found = attention(q, q, q, dropout_p=0.5, return_lse=True)
    assert_near([found], [expected], 1e-6)


def test_torchs_generator_decides() -> None:
    q = randn(1, 2, 33, 16)
    run = lambda x: attention(x, x, x, dropout_p=0.5)  # noqa: E731
    torch.manual_seed(1)
    first, second = results(run, q), results(run, q)
    torch.manual_seed(1)
    assert_same_bits(results(run, q), first)
    assert not torch.equal(first[0], second[0])


def test_no_mask_is_stored() -> None:
    """What the gradient keeps grows with rows and keys, not with their product."""
    q = randn(1, 1, 300, 8, grad=True)
    sizes: list[int] = []

    def pack(tensor: Any) -> Any:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        attention(q, q, q, dropout_p=0.5).sum().backward()
    assert sizes and max(sizes) <= 300 * 8
    assert q.grad is not None and q.grad.any()


def test_of_numpy_too() -> None:
    import numpy as np

    q = randn(1, 2, 33, 16).numpy()
    np.random.seed(3)
    first, second = (metalcore.scaled_dot_product_attention(q, q, q, dropout_p=0.5) for _ in range(2))
    np.random.seed(3)
    assert np.array_equal(metalcore.scaled_dot_product_attention(q, q, q, dropout_p=0.5), first)
    assert not np.array_equal(first, second)
