"""dot, length, cross and the other functions of directions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, parts, row


@pytest.mark.feature("types", "geometric functions")
@pytest.mark.parametrize("name", ["float", "half"])
def test_lengths_and_products(name: str) -> None:
    a = np.array([[3, 4, 12, 0]]).astype(DTYPES[name])
    b = np.array([[1, 2, 2, 5]]).astype(DTYPES[name])
    got = row(
        [
            *("dot(a, b)", "dot(a.xyz, b.xyz)", "dot(a.xy, b.xy)", "length(a)", "length(a.xy)", "length_squared(b)"),
            *(
                "distance(a.xy, float2(0).xy)" if name == "float" else "distance(a.xy, half2(0))",
                "distance_squared(a, b)",
            ),
            *parts("cross(a.xyz, b.xyz)", 3),
        ],
        name,
        a=a,
        b=b,
    )
    assert got == [35, 35, 11, 13, 5, 34, 5, 133, -16, 6, 2]


def test_normalize() -> None:
    assert row(parts("normalize(float2(3, 4))", 2)) == pytest.approx([0.6, 0.8], rel=1e-6)
    assert row(parts("normalize(half4(2, 0, 0, 0))", 4), "half") == [1, 0, 0, 0]


def test_reflect_refract_faceforward() -> None:
    setup = "float3 n = float3(0, 1, 0), u = float3(1, -1, 0);"
    assert row(parts("reflect(u, n)", 3), setup=setup) == [1, 1, 0]
    assert row(parts("faceforward(n, u, n)", 3), setup=setup) == [0, 1, 0]
    assert row(parts("faceforward(n, -u, n)", 3), setup=setup) == [0, -1, 0]
    assert row(parts("refract(float3(0, -1, 0), n, 0.5f)", 3), setup=setup) == [0, -1, 0]
    assert row(parts("refract(normalize(u), n, 2.0f)", 3), setup=setup) == [0, 0, 0]


def test_half_sums_are_kept_in_float() -> None:
    # 300 * 300 alone overflows half.
    assert row(["length(half2(300, 400))", "dot(half2(2048, 1), half2(1, 1))"], "half") == [500, 2048]
