"""Gradients proven on the kernels' own source: float is read as double, and torch compares with differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from metalcore.health.draw import Sample, Values, flat
from metalcore.health.verify import draw_sample
from metalcore.ops import find, function, nouns

DIFFERENTIABLE = [noun for noun in nouns() if find(noun).gradients]
USUAL = ("rms_norm", "layer_norm", "softmax", "gelu", "cross_entropy", "embedding_bag", "rope", "causal_conv1d")
CASES = 1  # small ones among the fuzzed cases
MANY = 6
MOST = 150  # elements of an input: every one of them is moved twice


def small_samples(noun: str, count: int) -> list[Sample]:
    op = find(noun)
    found = []
    for index in range(400):
        sample = draw_sample(op, index)
        if sample.named.get("scale_grad_by_freq"):
            continue  # asks for something else than the derivative
        if all(0 < v.values.size <= MOST for v in sample.values):
            found.append(sample)
        if len(found) == count:
            break
    return found


def check(noun: str, sample: Sample) -> bool:
    inputs: list[Any] = []

    def made(value: Values) -> Any:
        tensor = value.torch("float64")
        if value.is_float and value.grad:
            inputs.append(tensor.detach().contiguous().requires_grad_())
        return tensor

    sample.made(made)

    def call(*given: Any) -> Any:
        rest = iter(given)
        args, kwargs = sample.made(lambda v: next(rest) if v.is_float and v.grad else v.torch("float64"))
        return tuple(o for o in flat(function(noun)(*args, **kwargs)) if o.is_floating_point() and o.requires_grad)

    if not call(*inputs):
        return False
    return bool(torch.autograd.gradcheck(call, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=False))


@pytest.mark.parametrize(
    "noun", [pytest.param(n, marks=[] if n in USUAL else [pytest.mark.sweep]) for n in DIFFERENTIABLE]
)
def test_gradcheck(noun: str) -> None:
    assert_gradients(noun, CASES)


@pytest.mark.sweep
@pytest.mark.parametrize("noun", DIFFERENTIABLE)
def test_gradcheck_of_many(noun: str) -> None:
    assert_gradients(noun, MANY)


def assert_gradients(noun: str, count: int) -> None:
    samples = small_samples(noun, count)
    assert samples, f"no small case among the fuzzed ones of {noun}"
    assert any([check(noun, sample) for sample in samples])
