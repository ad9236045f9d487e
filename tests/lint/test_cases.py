"""What rules find and what they are quiet about, in one file that is compiled once; and what is only seen alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lint.pages import PREFIX, run

CASES = Path(__file__).with_name("cases.metal")


def test_cases_are_found_at_their_lines_and_nothing_else() -> None:
    text = CASES.read_text(encoding="utf-8")
    wanted = {
        (number, rule)
        for number, line in enumerate(text.splitlines(), 1)
        for marks in re.findall(r"// expect: (.*)$", line)
        for rule in marks.split(", ")
    }
    outcome = run(text, "cases.metal")
    assert outcome.error is None, outcome.error
    assert {(d.line, d.rule) for d in outcome.diagnostics} == wanted
    assert not outcome.notes


def test_math_mode_and_metal_version_are_heard() -> None:
    text = CASES.read_text(encoding="utf-8")
    rules = {d.rule for d in run(text, "cases.metal", math_mode="safe", metal_version=(4, 0)).diagnostics}
    assert "float-float-fast-math" not in rules and "bfloat-shuffle" not in rules
    assert "divergent-barrier" in rules


def test_what_metal_refuses_is_mended_and_the_rest_is_looked_at() -> None:
    text = (
        PREFIX
        + """struct Row {
  float* start;
};
kernel void f(float* x [[buffer(0)]], constant int& n [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  double a = 0.5, b = x[i];
  bfloat c = 0.5;
  x[i] = a + b + c + int(i) / n;
}
"""
    )
    found = [(d.line - 2, d.rule) for d in run(text).diagnostics]
    assert found == [
        (2, "missing-address-space"),
        (4, "missing-address-space"),
        (4, "buffer-bound-twice"),
        (5, "double-type"),
        (6, "implicit-bfloat"),
        (7, "integer-division"),
    ]


def test_order_in_templates() -> None:
    text = (
        PREFIX
        + """template <typename T>
T outer(T v) {
  return inner(v) * 2;
}
template <typename T>
T inner(T v) {
  return v + T(1);
}
kernel void f(device float* x) {
  x[0] = outer(x[0]);
}
"""
    )
    outcome = run(text)
    assert outcome.error is None
    (found,) = outcome.diagnostics
    assert (found.rule, found.line - 2, found.column) == ("used-before-defined", 3, 10)
    assert (found.related[0].line - 2, found.related[0].message) == (6, "'inner' is defined here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel void f(device float* x) { x[0] = nowhere(1); }", "nowhere"),
        ("kernel void f(device float* x) { x[0] = 1 }", "expected ';'"),
        ("kernel int f() { return 1; }", "a kernel returns void"),
        ("kernel void f(texture2d<float> t [[texture(0)]]) {}", "textures"),
        ('#include "none.h"\n', "none.h"),
    ],
)
def test_other_errors_are_errors_of_the_compiler(text: str, message: str) -> None:
    outcome = run(text)
    assert outcome.error is not None and message in str(outcome.error)
    assert [d.rule for d in outcome.diagnostics if d.rule != "unused-parameter"] == []


def test_recursion_that_ends_is_looked_at_and_other_recursion_is_refused() -> None:
    ends = "float f(float x) { return x < 0 ? -f(-x) : x; }\n"
    user = "kernel void k(device float* x, constant uint& n) { x[0] = f(x[0]) + 7u / n; }\n"
    assert [d.rule for d in run(ends + user).diagnostics] == ["integer-division"]
    endless = "float f(float x) { return x > 9 ? x : 1 + f(x * x); }\n"
    assert "recursion is not supported in Metal: f -> f" in str(run(endless + user).error)
