"""Fuzzed cases of slstm_step, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases.slstm import draw_states, draw_weights
from metalcore.health.cases.slstm import reference as sequence
from metalcore.health.draw import Draw, Sample


def reference(x: Any, R: Any, b: Any, states: Any) -> Any:
    y, last = sequence(x[:, None], R, b, states, True)
    return y[:, 0], last


def samples(draw: Draw) -> Sample:
    depth, batch, heads = draw.size(most=257), draw.choice((0, 1, 1, 2, 3, 5, 9)), draw.choice((1, 1, 2, 3))
    states = draw_states(draw, (batch, heads, depth))
    return Sample((draw.floats((batch, 4, heads, depth)), *draw_weights(draw, heads, depth), states))
