"""Fuzzed cases of paged_attention_v2, and the op in plain torch."""

from __future__ import annotations

from typing import Any

from metalcore.health.cases import paged_attention_v1 as v1
from metalcore.health.draw import Draw, Sample


def reference(out: Any, exp_sums: Any, max_logits: Any, tmp_out: Any, *rest: Any) -> None:
    v1.reference(out, *rest)


def samples(draw: Draw) -> Sample:
    found = v1.samples(draw)
    return Sample((found.arguments[0], None, None, None, *found.arguments[1:]), found.named)
