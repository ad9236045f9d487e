"""Attention by the error rule: 40 fuzzed shapes of every dtype and feature, and the same bits in every run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore.health.cases.base.attention_samples import FEATURES, case_of
from metalcore.health.verify import sample_of, verify_sample
from metalcore.ops import find
from metalcore.ops.base.op import FLOATS
from tests.ops.attention_cases import assert_same_bits, kernels, randn, results

CASES = 40
USUAL = ("mask", "bias", "window", "sinks")
attention = metalcore.scaled_dot_product_attention


def problems(dtype: str, features: set[str], cases: range) -> list[str]:
    op = find("scaled_dot_product_attention")
    samples = [(index, sample_of(op.noun, lambda draw: case_of(draw, features), index)) for index in cases]
    outcomes = [verify_sample(op, sample, dtype, index) for index, sample in samples]
    assert sum(len(o.measures) for o in outcomes) >= len(cases)
    return [o.explain() for o in outcomes if not o.passed]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature(feature: str, dtype: str) -> None:
    assert problems(dtype, {feature}, range(CASES)) == []


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("second", FEATURES[1:])
def test_two_features_at_once(second: str, dtype: str) -> None:
    found = {first: problems(dtype, {first, second}, range(3)) for first in FEATURES[1:] if first != second}
    assert {first: wrong for first, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_some_features(dtype: str) -> None:
    assert [problems(dtype, {feature}, range(i, i + 2)) for i, feature in enumerate(USUAL)] == [[]] * len(USUAL)


def everything(dtype: torch.dtype) -> tuple[Any, list[Any]]:
    """A call with most features at once, and its inputs."""
    slopes = randn(4, seed=5).abs()

    def run(q: Any, k: Any, v: Any, bias: Any, sinks: Any) -> Any:
        torch.manual_seed(3)
        return attention(
            q, k, v, bias, 0.2, True, enable_gqa=True, softcap=20.0, alibi_slopes=slopes, sinks=sinks, return_lse=True
        )

    shapes = ((2, 4, 70, 33), (2, 2, 45, 33), (2, 2, 45, 64), (4, 70, 1))
    inputs = [randn(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]
    return run, [*inputs, randn(4, seed=4)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, pytest.param(torch.float16, marks=pytest.mark.sweep)])
def test_ten_runs_have_the_same_bits(dtype: torch.dtype) -> None:
    run, inputs = everything(dtype)
    first = results(run, *inputs)
    assert len(first) == 7
    for _ in range(9):
        assert_same_bits(results(run, *inputs), first)


@pytest.mark.parametrize("shape", [(8, 1, 4096), (1, 3, 2000), (1, 40, 2000)], ids=["short", "short split", "split"])
def test_ten_runs_of_a_decoding_step_have_the_same_bits(shape: tuple[int, int, int]) -> None:
    heads, queries, keys = shape
    q, k = randn(1, heads, queries, 64, dtype=torch.bfloat16), randn(1, heads, keys, 64, seed=1, dtype=torch.bfloat16)
    first, launched = kernels(lambda: attention(q, k, k))
    assert launched[0].startswith("attention_decode" if queries < 9 else "attention_forward")
    assert ("is_split=true" in launched[0]) == (heads == 1) == (len(launched) == 2)
    for _ in range(9):
        assert torch.equal(attention(q, k, k), first)
    wide = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), k.double())
    assert (first.double() - wide).abs().max() <= 2**-8 * wide.abs().max()
