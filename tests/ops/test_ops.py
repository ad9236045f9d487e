"""Every op on its first fuzzed cases, against float64; `metalcore health` runs many more."""

from __future__ import annotations

import pytest

from metalcore.health.verify import verify
from metalcore.ops import find, nouns

CASES = {"float32": 3, "float16": 2, "bfloat16": 2}
SHORT = ("rms_norm", "cross_entropy", "silu", "rope", "softmax")  # in half precision too; the others in the long run


@pytest.mark.parametrize(
    "noun, dtype",
    [
        pytest.param(noun, dtype, marks=[pytest.mark.sweep] if dtype != "float32" and noun not in SHORT else [])
        for noun in nouns()
        for dtype in find(noun).dtypes
    ],
)
def test_error_rule(noun: str, dtype: str) -> None:
    op = find(noun)
    outcomes = [verify(op, dtype, index) for index in range(CASES[dtype])]
    assert [o.explain() for o in outcomes if not o.passed] == []
    assert sum(len(o.measures) for o in outcomes) >= CASES[dtype]
