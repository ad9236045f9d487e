"""Fuzzed cases of metalcore.linalg, family polar, and its ops in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample
from metalcore.ops.linalg.polar import MUON


def reference(A: Any) -> Any:
    import torch

    U, S, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh, Vh.mT @ (S.unsqueeze(-1) * Vh)


def newton_schulz_reference(G: Any, steps: int = 5, coefficients: Sequence[float] = MUON, eps: float = 1e-7) -> Any:
    a, b, c = coefficients
    is_tall = G.shape[-2] > G.shape[-1]
    X = G.mT if is_tall else G
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + eps)
    for _ in range(steps):
        gram = X @ X.mT
        X = a * X + (b * gram + c * gram @ gram) @ X
    return X.mT if is_tall else X


def samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(least=1, most=33), draw.size(least=1, most=33))),))


def newton_schulz_samples(draw: Draw) -> Sample:
    (A,) = samples(draw).arguments
    return Sample((A, draw.choice((1, 2, 3, 5)), draw.choice((MUON, (1.5, -0.5, 0.0)))))


CASES = {
    "linalg_polar": Case(reference, samples),
    "linalg_newton_schulz": Case(newton_schulz_reference, newton_schulz_samples),
}
