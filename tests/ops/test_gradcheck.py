"""Gradients proven on the kernels' own source: float is read as double, and torch compares with differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from metalcore.ops import find, function, nouns
from metalcore.ops.base.draw import Sample, Values, flat
from metalcore.ops.base.verify import draw_sample

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
        arrays = [v for v in (*sample.arguments, *sample.named.values()) if isinstance(v, Values)]
        if sample.named.get("scale_grad_by_freq"):
            continue  # asks for something else than the derivative
        if all(0 < v.values.size <= MOST for v in arrays):
            found.append(sample)
        if len(found) == count:
            break
    return found


def check(noun: str, sample: Sample) -> bool:
    inputs: list[Any] = []
    places: list[tuple[int | str, int]] = []

    def made(key: int | str, value: Any) -> Any:
        if not isinstance(value, Values):
            return value
        tensor = value.torch("float64")
        if value.is_float and value.grad:
            places.append((key, len(inputs)))
            inputs.append(tensor.detach().contiguous().requires_grad_())
        return tensor

    arguments = [made(i, v) for i, v in enumerate(sample.arguments)]
    named = {k: made(k, v) for k, v in sample.named.items()}

    def call(*given: Any) -> Any:
        args, kwargs = list(arguments), dict(named)
        for key, i in places:
            if isinstance(key, int):
                args[key] = given[i]
            else:
                kwargs[key] = given[i]
        outputs = function(noun)(*args, **kwargs)
        return tuple(o for o in flat(outputs) if o.is_floating_point() and o.requires_grad)

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
