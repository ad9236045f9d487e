"""Fuzzed cases of metalcore.precise, family factor, and its ops in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample


def cholesky_reference(A: Any, *, upper: bool = False) -> Any:
    import torch

    wide = A.float() if A.dtype in (torch.float16, torch.bfloat16) else A
    return torch.linalg.cholesky(wide, upper=upper)


def qr_reference(A: Any, mode: str = "reduced") -> Any:
    import torch

    wide = A.float() if A.dtype in (torch.float16, torch.bfloat16) else A
    return torch.linalg.qr(wide, mode)


def cholesky_samples(draw: Draw) -> Sample:
    n = draw.size(most=65)
    half = draw.floats((*draw.choice(((), (3,), (0,))), n, n), layout="contiguous")
    values = half.values @ half.values.swapaxes(-1, -2)
    for i in range(n):
        values[..., i, i] += 8 * n
    values = values.astype("float32").astype("float64")
    return Sample((type(half)(values, "contiguous", grad=False),), {"upper": draw.chance(0.5)})


def qr_samples(draw: Draw) -> Sample:
    m, n = draw.size(most=65), draw.size(most=65)
    a = draw.floats((*draw.choice(((), (3,), (0,))), m, n), layout="contiguous", grad=False)
    return Sample((a,), {"mode": "r"})


CASES = {
    "precise_cholesky": Case(cholesky_reference, cholesky_samples),
    "precise_qr": Case(qr_reference, qr_samples),
}
