"""metal::array and uniform."""

from __future__ import annotations

import pytest

from tests.engine.include.probe import row


@pytest.mark.feature("types", "metal::array")
def test_array_members() -> None:
    setup = """
  array<int, 4> a = {1, 2, 3, 4};
  array<int, 4> b = a;
  b[1] += 10;
  b.fill(0 * a[0] + 5);
  b.back() = 8;
  int total = 0;
  for (auto v : a) total += v;
  array<float2, 2> pairs;
  pairs[0] = float2(1, 2);
  pairs[1].xy = pairs[0].yx;
"""
    got = row(
        [
            "a.size()",
            "a[2]",
            "a.front()",
            "b[0]",
            "b.back()",
            "total",
            "*(a.data() + 1)",
            "pairs[1].x",
            "a == b",
            "a.at(3)",
        ],
        "int",
        setup=setup,
    )
    assert got == [4, 3, 1, 5, 8, 10, 2, 2, 0, 4]


def test_array_in_constant_and_structs() -> None:
    header = """
constant array<float, 3> weights = {{0.25f, 0.5f, 0.25f}};
struct Row { array<int, 3> v; int n; };
int sum(constant array<float, 3>& w) { return int(4 * (w[0] + w[1] + w[2])); }
"""
    setup = "Row r; r.v = array<int, 3>{7, 8, 9}; r.n = 2; Row s = r; s.v[0] = 1;"
    assert row(
        ["weights[i + 1] * 8", "sum(weights)", "r.v[r.n]", "s.v[0] + r.v[0]", "sizeof(Row)"],
        "int",
        header=header,
        setup=setup,
    ) == [4, 4, 9, 8, 16]


@pytest.mark.feature("types", "uniform")
def test_uniform_is_its_value() -> None:
    setup = "const uniform<int> n = make_uniform(12); const uniform<int> q = n / make_uniform(5); int k = n; k -= q;"
    assert row(["q", "k", "n * 2 + int(i)"], "int", setup=setup) == [2, 10, 24]
