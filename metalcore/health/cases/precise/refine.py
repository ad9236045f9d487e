"""Fuzzed cases of metalcore.precise, family refine, and its ops in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample


def reference(A: Any, B: Any, *, precision: str = "float-float") -> Any:
    import torch

    if A.dtype in (torch.float16, torch.bfloat16):
        return torch.linalg.solve(A.float(), B.float())
    return torch.linalg.solve(A, B)


def samples(draw: Draw) -> Sample:
    n, sides = draw.size(most=65), draw.choice((1, 2, 17, 33))
    leading = draw.choice(((), (), (1,), (3,), (2, 2), (0,)))
    a = draw.floats((*leading, n, n))
    for i in range(n):
        a.values[..., i, i] += 8 * n  # well conditioned, in every dtype
    a = type(a)(a.values.astype("float16").astype("float64"), a.layout.replace("expanded", "contiguous"))
    return Sample((a, draw.floats((*leading, n, sides))), {"precision": draw.choice(("float-float", "exact"))})


CASES = {
    "precise_solve": Case(reference, samples),
}
