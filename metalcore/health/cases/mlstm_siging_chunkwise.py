"""Fuzzed cases of mlstm_siging_chunkwise, and the op in plain torch."""

from __future__ import annotations

from functools import partial

from metalcore.health.cases.base.mlstm import draw_case, sequence
from metalcore.health.draw import Draw, Sample

reference = partial(sequence, is_sigmoid=True)


def samples(draw: Draw) -> Sample:
    case = draw_case(draw, chunk_size=draw.choice((16, 32, 64, 64, 128)))
    *arrays, _, returns = case.arguments
    return Sample((*arrays, None, returns), case.named)
