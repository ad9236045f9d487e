"""What the tests of attention share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import metalcore
from metalcore.health.draw import Draw, Sample, Values


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
    found = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return found.to(dtype).requires_grad_(grad)


def results(run: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Outputs, and gradients for fixed cotangents, of a function of fresh copies of the inputs."""
    fresh = [x.detach().clone().requires_grad_() for x in inputs]
    found = run(*fresh)
    outputs = list(found) if isinstance(found, tuple) else [found]
    cotangents = [randn(*o.shape, seed=9 + i, dtype=o.dtype) for i, o in enumerate(outputs)]
    gradients = torch.autograd.grad(outputs, fresh, cotangents)
    return [*(o.detach() for o in outputs), *gradients]


def kernels(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call returns, and the variants that it launched."""
    with metalcore.explain() as log:
        found = run()
    return found, [label for row in log for label in row.kernels]


def assert_same_bits(found: Any, expected: Any) -> None:
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    """Largest difference over the largest value."""
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b.double()).abs().max() <= tolerance * max(1.0, b.double().abs().max().item())


def launched_otherwise() -> list[tuple[Sample, str]]:
    """Small cases, with their dtype, of the kernels that a size or an argument chooses: decoding, keys that are split,
    gradients of biases and sinks, sums of many terms in float32."""
    draw = Draw(20261117, 0)

    def floats(*shape: int, grad: bool = False) -> Values:
        return draw.floats(shape, layout="contiguous", grad=grad)

    def three(
        heads: int, key_heads: int, queries: int, keys: int, depth: int, grad: bool = False
    ) -> tuple[Values, ...]:
        shapes = ((heads, queries), (key_heads, keys), (key_heads, keys))
        return tuple(floats(1, *shape, depth, grad=grad) for shape in shapes)

    many: dict[str, Any] = {"enable_gqa": True, "softcap": 9.0, "is_causal": True}
    return [
        (Sample(three(8, 4, 3, 70, 64), {"enable_gqa": True}), "bfloat16"),
        (Sample((*three(8, 4, 2, 70, 33), floats(8, 1, 70)), many | {"alibi_slopes": floats(8)}), "bfloat16"),
        (Sample(three(1, 1, 3, 1100, 64), {"sinks": floats(1)}), "bfloat16"),
        (Sample(three(1, 1, 20, 1100, 33), {"sinks": floats(1), "window_size": (900, 3)}), "bfloat16"),
        (Sample((*three(4, 2, 40, 70, 33, True), floats(1, 70, grad=True)), many | {"dropout_p": 0.2}), "bfloat16"),
        (
            Sample((*three(2, 2, 9, 40, 33, True), floats(9, 40, grad=True)), {"sinks": floats(2, grad=True)}),
            "bfloat16",
        ),
        (Sample((*three(8, 4, 40, 70, 33, True), floats(1, 70, grad=True)), many | {"dropout_p": 0.2}), "bfloat16"),
        (Sample(three(4, 2, 100, 100, 64, True), {"enable_gqa": True}), "float32"),
        (Sample(three(4, 4, 100, 100, 80, True), {"is_causal": True}), "float32"),
        (Sample(three(1, 1, 5, 1100, 33, True), {"softcap": 9.0}), "float32"),
    ]
