"""mLSTM step by step in plain torch: the truth in float64, the peer in an op's own dtype; and fuzzed cases of it."""

from __future__ import annotations

import math
from typing import Any

from metalcore.health.draw import Draw, Sample


def step(q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float, is_sigmoid: bool = False) -> Any:
    """One row: q, k (batch, heads, depth), v (..., width), i, f, m (batch, heads). h and the new states."""
    import torch

    log_f = torch.nn.functional.logsigmoid(f)
    if is_sigmoid:
        log_i, m_new = torch.nn.functional.logsigmoid(i), torch.zeros_like(m)
    else:
        log_i, m_new = i, torch.maximum(log_f + m, i)
    forget, take = torch.exp(log_f + m - m_new)[..., None], torch.exp(log_i - m_new)[..., None]
    c = forget[..., None] * c + (take * k)[..., :, None] * v[..., None, :]
    n = forget * n + take * k
    scaled = q / math.sqrt(q.shape[-1])
    below = torch.maximum((scaled * n).sum(-1).abs(), torch.exp(-m_new)) + eps
    h = (scaled[..., None, :] @ c)[..., 0, :] / below[..., None]
    return h, (c, n, m_new)


def recurrent(
    q: Any, k: Any, v: Any, i: Any, f: Any, c: Any, n: Any, m: Any, eps: float, is_sigmoid: bool = False
) -> Any:
    import torch

    batch, heads, length, depth = q.shape
    if c is None:
        c = q.new_zeros((batch, heads, depth, v.shape[-1]))
        n, m = q.new_zeros((batch, heads, depth)), q.new_zeros((batch, heads))
    m = q.new_zeros((batch, heads)) if is_sigmoid else m
    rows = []
    for t in range(length):
        row = (q[:, :, t], k[:, :, t], v[:, :, t], i[:, :, t], f[:, :, t])
        h, (c, n, m) = step(*row, c, n, m.reshape(batch, heads), eps, is_sigmoid)
        rows.append(h)
    if rows:
        return torch.stack(rows, 2), (c, n, m)
    h = v * (q + k).sum(-1, True) * (i + f)[..., None] * (c.sum() + n.sum() + m.sum())  # empty, of all inputs
    return h, (c, n, m)


def sequence(q: Any, k: Any, v: Any, i: Any, f: Any, *more: Any, is_sigmoid: bool = False, **_: Any) -> Any:
    """As the public functions have it: `more` is nothing, or three states and whether the last ones are returned. The
    size of a chunk changes nothing here."""
    c, n, m, returns = more or (None, None, None, False)
    h, last = recurrent(q, k, v, i, f, c, n, m, 1e-6, is_sigmoid)
    return (h, last) if returns else h


def draw_case(draw: Draw, **named: Any) -> Sample:
    """Lengths around those of chunks; half of the cases have states before the first row."""
    batch, heads = draw.choice((0, 1, 1, 2)), draw.choice((1, 2, 3))
    length = draw.size(most=200)
    depth, width = draw.choice((1, 3, 8, 16, 31, 33, 64, 65)), draw.choice((1, 5, 16, 32, 33, 64, 130))
    if draw.chance(0.2):  # more than float32 takes row by row
        heads, length = 4, draw.choice((128, 130, 257))
        depth, width = draw.choice((64, 65, 128)), draw.choice((64, 97, 130))
    rows = (batch, heads, length)
    arrays: list[Any] = [
        *(draw.floats((*rows, n)) for n in (depth, depth, width)),
        *(draw.floats(rows, low, high) for low, high in ((-5.0, 5.0), (-3.0, 6.0))),
    ]
    if draw.chance(0.5):
        arrays += [draw.floats((batch, heads, depth, width)), draw.floats((batch, heads, depth)), draw.floats(rows[:2])]
    else:
        arrays += [None, None, None]
    return Sample((*arrays, draw.chance(0.7)), named)
