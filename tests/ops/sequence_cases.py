"""Fuzzed cases of variable-length and paged attention, each with the features that a test asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metalcore.health.draw import Draw, Sample, Values
from metalcore.health.verify import sample_of, verify_sample
from metalcore.ops import find

LENGTHS = (1, 33, 7, 64, 2, 97, 32, 5)
DEPTHS = (64, 33, 8, 1, 128, 80, 3, 17)
LAYOUTS = ("contiguous", "transposed", "sliced")
VARLEN = ("plain", "causal", "cross", "empty", "gqa", "mqa", "window", "softcap", "alibi", "slopes by sequence", "wide")
PAGED = ("plain", "fp8", "queries", "gqa", "mqa", "window", "softcap", "alibi", "sinks", "wide", "block of 1")


def indices(values: Any, dtype: str = "int32") -> Values:
    return Values(np.asarray(values, dtype), is_float=False, grad=False)


def numbers_per_head(draw: Draw, shape: tuple[int, ...], low: float, high: float) -> Values:
    return draw.floats(shape, low, high, layout="contiguous", grad=False)


def varlen_case(draw: Draw, features: set[str]) -> Sample:
    sequences = draw.choice((1, 2, 3, 5))
    queries = [LENGTHS[(draw.index + 3 * s) % 8] for s in range(sequences)]
    keys = list(queries)
    if "cross" in features:
        keys = [draw.choice(LENGTHS) for _ in range(sequences)]
    if "empty" in features:
        for given in (queries, keys):
            given[draw.choice(range(sequences))] = 0
    depth = DEPTHS[draw.index % 8]
    width = draw.choice((16, 65, 130)) if "wide" in features else depth
    key_heads = 1 if "mqa" in features else draw.choice((1, 2))
    heads = key_heads * (draw.choice((9, 12)) if "mqa" in features else draw.choice((2, 4)) if "gqa" in features else 1)
    q = draw.floats((sum(queries), heads, depth), layout=draw.choice(LAYOUTS))
    k, v = (draw.floats((sum(keys), key_heads, d), layout=draw.choice(LAYOUTS)) for d in (depth, width))
    starts = [indices(np.cumsum([0, *n]), draw.choice(("int32", "int64"))) for n in (queries, keys)]
    named: dict[str, Any] = {}
    if "causal" in features:
        named["causal"] = True
    if "window" in features:
        named["window_size"] = (draw.choice((-1, 0, 3, 40)), draw.choice((-1, 0, 7)))
    if "softcap" in features:
        named["softcap"] = draw.choice((1.0, 20.0))
    if "alibi" in features:
        named["alibi_slopes"] = numbers_per_head(draw, (heads,), 0.01, 0.5)
    if "slopes by sequence" in features:
        named["alibi_slopes"] = numbers_per_head(draw, (sequences, heads), 0.01, 0.5)
    if draw.chance(0.3):
        named["softmax_scale"] = 0.4
    return Sample((q, k, v, *starts, max(queries), max(keys)), named)


def paged_case(draw: Draw, features: set[str]) -> Sample:
    sequences, key_heads = draw.choice((1, 2, 4)), 1 if "mqa" in features else draw.choice((1, 2))
    heads = key_heads * (draw.choice((9, 12)) if "mqa" in features else draw.choice((2, 4)) if "gqa" in features else 1)
    depth = DEPTHS[draw.index % 8]
    width = draw.choice((16, 65, 130)) if "wide" in features else depth
    block = 1 if "block of 1" in features else draw.choice((8, 16, 5, 32))
    is_many = "queries" in features
    queries = [draw.choice((1, 2, 5, 33, 0)) if is_many else 1 for _ in range(sequences)]
    lengths = [n + draw.choice((0, 1, 30, 65, 200)) for n in queries]
    most = max(-(-n // block) for n in lengths) + draw.choice((0, 2))
    blocks = most * sequences + 1
    tables = np.asarray(draw.distinct(most * sequences, blocks, "int64")).reshape(sequences, most)
    used = np.zeros(blocks * block, bool)
    for row, n in zip(tables, lengths, strict=True):
        used[(row[:, None] * block + np.arange(block)).reshape(-1)[:n]] = True
    caches, named = [], {}
    for d in (depth, width):
        shape = (blocks, block, key_heads, d)
        if "fp8" in features:  # 127 is NaN
            codes = np.asarray(draw.integers(shape, 0, 119, "uint8").values)
            codes = np.where(np.asarray(draw.integers(shape, 0, 2).values) > 0, codes + 128, codes)
            caches.append(indices(np.where(used.reshape(blocks, block, 1, 1), codes, 127), "uint8"))
        else:
            values = draw.floats(shape, layout="contiguous", grad=False).values
            caches.append(Values(np.where(used.reshape(blocks, block, 1, 1), values, np.nan), grad=False))
    tables[np.arange(most)[None] >= -(-np.asarray(lengths)[:, None] // block)] = -7  # not looked at
    if "fp8" in features:
        named.update(k_scale=0.05, v_scale=0.25)
    if is_many:
        named["cu_seqlens_q"] = indices(np.cumsum([0, *queries]), draw.choice(("int32", "int64")))
    if "window" in features:
        named["window_size"] = (draw.choice((0, 7, 40)), -1)
    if "softcap" in features:
        named["softcap"] = draw.choice((1.0, 20.0))
    if "alibi" in features:
        named["alibi_slopes"] = numbers_per_head(draw, (heads,), 0.01, 0.5)
    if "sinks" in features:
        named["sinks"] = numbers_per_head(draw, (heads,), -2.0, 2.0)
    if draw.chance(0.3):
        named["scale"] = 0.4
    query = draw.floats((sum(queries), heads, depth), grad=False)
    kind = draw.choice(("int32", "int64"))
    return Sample((query, *caches, indices(tables, kind), indices(lengths, kind)), named)


def problems(noun: str, case: Callable[[Draw, set[str]], Sample], dtype: str, features: set[str], cases: range) -> Any:
    """What breaks the error rule among these cases."""
    samples = [(index, sample_of(noun, lambda draw: case(draw, features), index)) for index in cases]
    outcomes = [verify_sample(find(noun), sample, dtype, index) for index, sample in samples]
    assert sum(len(o.measures) for o in outcomes) >= len(cases)
    return [o.explain() for o in outcomes if not o.passed]


def launched_otherwise() -> list[tuple[Sample, str]]:
    """Cases of paged attention, with their dtype, whose size chooses other kernels than the fuzzed ones: decoding, keys
    that are split in it and where lanes are rows."""
    draw = Draw(20261118, 0)
    found = []
    for heads, queries, length in ((2, 1, 70), (2, 3, 1100), (12, 1, 1100)):
        tables = np.arange(-(-length // 16))[::-1][None]
        caches = [draw.floats((tables.size, 16, 1, 33), layout="contiguous", grad=False) for _ in range(2)]
        given = (draw.floats((queries, heads, 33), grad=False), *caches, indices(tables), indices([length]))
        named = {"sinks": numbers_per_head(draw, (heads,), -1.0, 1.0), "cu_seqlens_q": indices([0, queries])}
        found.append((Sample(given, named), "bfloat16"))
    return found
