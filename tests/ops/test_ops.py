"""Every op on its first fuzzed cases, against float64; `metalcore health` runs many more."""

from __future__ import annotations

import pytest

from metalcore.ops import find, nouns
from metalcore.ops.base.verify import verify

CASES = {"float32": 6, "float16": 2, "bfloat16": 3}


@pytest.mark.parametrize("dtype", CASES)
@pytest.mark.parametrize("noun", nouns())
def test_error_rule(noun: str, dtype: str) -> None:
    op = find(noun)
    if dtype not in op.dtypes:
        pytest.skip(f"{noun} takes {op.dtypes}")
    outcomes = [verify(op, dtype, index) for index in range(CASES[dtype])]
    assert [o.explain() for o in outcomes if not o.passed] == []
    assert sum(len(o.measures) for o in outcomes) >= CASES[dtype]
