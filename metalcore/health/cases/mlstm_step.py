"""Fuzzed cases of mlstm_step, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.base.mlstm import step
from metalcore.health.draw import Draw, Sample


def reference(q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float = 1e-6) -> Any:
    return step(q, k, v, i.reshape(q.shape[:2]), f.reshape(q.shape[:2]), c, n, m, eps)


def samples(draw: Draw) -> Sample:
    leading = (draw.choice((0, 1, 1, 2, 5)), draw.choice((1, 2, 3, 8)))
    depth, width = draw.size(most=130) or 1, draw.choice((1, 5, 16, 32, 33, 64, 130))
    arrays = (
        *(draw.floats((*leading, n)) for n in (depth, depth, width)),
        *(draw.floats(leading, low, high) for low, high in ((-5.0, 5.0), (-3.0, 6.0))),
        *(draw.floats((*leading, depth, width)), draw.floats((*leading, depth)), draw.floats(leading)),
    )
    return Sample(arrays)
