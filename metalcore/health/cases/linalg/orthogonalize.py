"""Fuzzed cases of metalcore.linalg, family orthogonalize, and its ops in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import Case
from metalcore.health.draw import Draw, Sample


def reference(A: Any) -> Any:
    import torch

    is_wide = A.shape[-2] < A.shape[-1]
    Q, R = torch.linalg.qr(A.mT if is_wide else A)
    Q = Q * torch.where(R.diagonal(dim1=-2, dim2=-1) < 0, -1, 1).to(Q.dtype).unsqueeze(-2)
    return Q.mT if is_wide else Q


def complete_reference(Q: Any) -> Any:
    import torch

    whole = torch.linalg.qr(Q, mode="complete").Q
    return torch.cat((Q, whole[..., Q.shape[-1] :]), dim=-1)


def samples(draw: Draw) -> Sample:
    return Sample((draw.floats((*draw.leading(most=1), draw.size(most=33), draw.size(most=33))),))


def complete_samples(draw: Draw) -> Sample:
    rows = draw.size(most=33)
    values = draw.floats((*draw.leading(most=1), rows, draw.integer(0, rows)))
    import numpy as np

    return Sample((type(values)(np.linalg.qr(values.values)[0].astype(np.float32).astype(np.float64)),))


CASES = {
    "linalg_orthogonalize": Case(reference, samples),
    "linalg_complete_basis": Case(complete_reference, complete_samples),
}
