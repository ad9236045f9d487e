"""What a call costs where the tensors are tiny: microseconds of the public function under no_grad."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from metalcore.health.draw import Sample
from metalcore.health.verify import draw_sample
from metalcore.ops import find, function, nouns


def microseconds(call: Callable[[], object], repeats: int = 100, rounds: int = 400) -> float:
    """The least disturbed of many short samples."""
    for _ in range(200):
        call()
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / repeats * 1e6


def overheads() -> dict[str, float]:
    """Each op on its first fuzzed case of a few contiguous elements, in float32."""
    return {noun: _of(noun) for noun in nouns()}


def _of(noun: str) -> float:
    op, run = find(noun), function(noun)
    sample = next(s for i in range(1000) if _is_tiny(s := draw_sample(op, i)))
    arguments, named = sample.made(lambda value: value.torch("float32"))
    with torch.no_grad():
        return microseconds(lambda: run(*arguments, **named))


def _is_tiny(sample: Sample) -> bool:
    return all(0 < a.values.size <= 256 and a.layout == "contiguous" for a in sample.values)


if __name__ == "__main__":
    for name, took in overheads().items():
        print(f"{name}: {took:.1f}")
