"""Fuzzed cases of metalcore.precise, family reduce, and its ops in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample
from metalcore.ops.precise.base.reduce import PRECISIONS


def sum_reference(x: Any, dim: Any = None, keepdim: bool = False, *, precision: str = "float-float") -> Any:
    import torch

    return torch.sum(x, dim=dim, keepdim=keepdim)


def norm_reference(x: Any, dim: Any = None, keepdim: bool = False, *, precision: str = "float-float") -> Any:
    import torch

    return torch.linalg.vector_norm(x, dim=dim, keepdim=keepdim)


def dot_reference(x: Any, y: Any, *, precision: str = "float-float") -> Any:
    import torch

    return torch.linalg.vecdot(x, y)


def samples(draw: Draw) -> Sample:
    shape = (draw.size(), *draw.leading(most=2))
    rank = len(shape)
    choice = draw.integer(0, 2)
    dim: Any = None if choice == 0 else draw.integer(-rank, rank - 1)
    if choice == 2 and rank > 1:
        dim = [0, rank - 1]
    named = {"dim": dim, "keepdim": draw.chance(0.5), "precision": draw.choice(PRECISIONS)}
    return Sample((draw.floats(shape),), named)


def dot_samples(draw: Draw) -> Sample:
    shape = (draw.size(), *draw.leading(most=2))[::-1]
    return Sample((draw.floats(shape), draw.floats(shape)), {"precision": draw.choice(PRECISIONS)})


CASES = {
    "precise_sum": Case(sum_reference, samples),
    "precise_norm": Case(norm_reference, samples),
    "precise_dot": Case(dot_reference, dot_samples),
}
