"""Fuzzed cases of mlstm_chunkwise, and the op in plain torch."""

from __future__ import annotations

from metalcore.health.cases.base.mlstm import draw_case, sequence
from metalcore.health.draw import Draw, Sample

reference = sequence


def samples(draw: Draw) -> Sample:
    return draw_case(draw, chunk_size=draw.choice((16, 32, 64, 64, 128)))
