"""Fuzzed cases of metalcore.linalg, family qr, and its ops in plain torch."""

from __future__ import annotations

from metalcore.health.cases import Case
from metalcore.health.cases.base.plain import of_torch
from metalcore.health.draw import Draw, Sample
from metalcore.ops.linalg.qr import MODES


def samples(draw: Draw) -> Sample:
    rows, columns, mode = draw.size(most=33), draw.size(most=33), draw.choice(MODES)
    has_gradient = mode == "reduced" or (mode == "complete" and rows <= columns)
    return Sample((draw.floats((*draw.leading(most=1), rows, columns), grad=has_gradient), mode))


CASES = {
    "linalg_qr": Case(of_torch("linalg.qr"), samples),
}
