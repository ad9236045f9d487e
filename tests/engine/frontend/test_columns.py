"""Columns of findings are those of the user's text, whatever stands on the line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metalcore
from metalcore.engine.frontend.columns import source_column
from metalcore.errors import KernelFault

HEAD = (
    "kernel void k(device uint* o [[buffer(0)]], constant   uint& n [[buffer(1)]], uint i [[thread_position_in_grid]])"
)
LINES = {
    "o[i + n]": HEAD + " { o[i + n] = o[i]; }",
    "o[i + n + 1]": HEAD + " { threadgroup uint s[4];  s[i & 3] = 1;   device  uint* p = o; o[0] = o[i + n + 1]; }",
    "o[n + 7]": HEAD + ' { /* é "[[x]]" */ float4 f = float4(1.0, 2.0, 3.0, 4.0); o[i] = uint(f.x) + o[n + 7]; }',
}


@pytest.mark.feature("API", "columns of faults and findings are those of the source, on lines with attributes too")
def test_places() -> None:
    for expression, source in LINES.items():
        with pytest.raises(KernelFault) as caught:
            metalcore.Library(source).function("k")(np.zeros(8, np.uint32), 100, threads=8)
        found = re.search(r"<metal>:1:(\d+) by", str(caught.value))
        assert found is not None
        column = int(found[1])
        # A store is named by its `=`, a load by its expression.
        at_load, at_store = source.rindex(expression) + 1, source.rindex(expression) + len(expression) + 2
        assert column in (at_load, at_store), (column, source[column - 1 :])


def test_the_sanitizer() -> None:
    source = HEAD + " { o[i] = o[i] / (n - 100); }"
    with metalcore.mode("sanitize") as report:
        metalcore.Library(source).function("k")(np.zeros(8, np.uint32), 100, threads=8)
    (finding,) = report.findings
    assert source[finding.column - 1] == "/"


def test_words_are_aligned() -> None:
    made = "f(__mc_device int* x ) { static __attribute__((used)) __mc_threadgroup int s; x[0] = 1.0f + PLUS; }"
    written = "f(device int* x [[buffer(0)]]) {  threadgroup int s;   x[0] = 1.0 + PLUS; }"
    for word in ("x[0]", "= 1", "+", "PLUS", "s;"):
        assert source_column(made, made.index(word) + 1, written) == written.index(word) + 1, word
    assert source_column("a = f(i) + 2;", 5, "a = TWICE;") == 5  # from a macro: where that stands


def test_a_line_that_is_wider_than_llvm_can_count_runs() -> None:
    source = " " * 70_000 + HEAD + " { o[i + n] = o[i]; }"
    out = np.arange(4, dtype=np.uint32)
    function = metalcore.Library("\n" + source).function("k")
    function(out, np.uint32(0), threads=4)
    with pytest.raises(KernelFault, match="<metal>:2"):
        function(out, np.uint32(100), threads=4)
