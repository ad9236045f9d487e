"""Fuzzed cases of slstm, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.draw import Draw, Sample, Values


def reference(x: Any, R: Any, b: Any, states: Any = None, return_last_states: bool = False) -> Any:
    import torch

    batch, steps, _, heads, depth = x.shape
    y, c, n, m = states if states is not None else [x.new_zeros((batch, heads, depth)) for _ in range(4)]
    if steps == 0:  # of no steps the results depend on every input all the same
        nothing = 0.0 * (x.sum() + R.sum() + b.sum())
        found = x[:, :, 0] + 0.0 * (y + c + n + m)[:, None] + nothing
        return (found, tuple(s + nothing for s in (y, c, n, m))) if return_last_states else found
    outputs = []
    for at in x.unbind(1):
        raw_i, raw_f, raw_z, raw_o = (at + torch.einsum("bhk,ghkj->bghj", y, R) + b).unbind(1)
        kept = torch.nn.functional.logsigmoid(raw_f) + m
        m = torch.where(n == 0, raw_i, torch.maximum(raw_i, kept))
        enters, stays = torch.exp(raw_i - m), torch.exp(torch.clamp(kept - m, max=0.0))
        c, n = stays * c + enters * torch.tanh(raw_z), stays * n + enters
        y = torch.sigmoid(raw_o) * c / n
        outputs.append(y)
    found = torch.stack(outputs, 1)
    return (found, (y, c, n, m)) if return_last_states else found


def draw_states(draw: Draw, shape: tuple[int, ...]) -> tuple[Values, ...] | None:
    if draw.chance(0.5):
        return None
    ranges = ((-1.0, 1.0), (-2.0, 2.0), (0.5, 3.0), (-2.0, 2.0))
    return tuple(draw.floats(shape, low, high) for low, high in ranges)


def draw_weights(draw: Draw, heads: int, depth: int) -> tuple[Values, Values]:
    """So large that a step matters to the next, so small that errors do not grow from step to step."""
    size = 1.5 / max(1.0, float(depth) ** 0.5)
    return draw.floats((4, heads, depth, depth), -size, size), draw.floats((4, heads, depth), -1.0, 1.0)


def samples(draw: Draw) -> Sample:
    steps, batch = draw.size(most=130), draw.choice((0, 1, 1, 2, 3, 5, 9))
    heads, depth = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2, 3, 5, 8, 31, 33, 64, 65, 97))
    states = draw_states(draw, (batch, heads, depth))
    x = draw.floats((batch, steps, 4, heads, depth))
    return Sample((x, *draw_weights(draw, heads, depth), states, draw.chance(0.6)))
