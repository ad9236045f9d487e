"""Where results are rounded: half and bfloat at each step, and the contraction rule of each math mode.

safe: a product and a sum inside one expression are one fused operation; across statements they are two roundings.
relaxed and fast: the compiler may also fuse across statements, so either value may come out.
`#pragma METAL fp contract(off)` turns fusing off.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.engine.language.helpers import feature, launch

DTYPES: dict[str, Any] = {"float": np.float32, "half": np.float16, "bfloat": ml_dtypes.bfloat16}
# a = 1 + ulp: a * a = 1 + 2 ulp + ulp^2, whose tail only a fused operation keeps
ULP = {"float": 2.0**-12, "half": 2.0**-10, "bfloat": 2.0**-7}


def compute(body: str, type_: str, values: list[float], math_mode: str = "safe", before: str = "") -> float:
    """`body` uses a, b, c and d and assigns to r, all of one type."""
    source = f"""{before}
    kernel void k(device const {type_}* in, device {type_}* o) {{
        {type_} a = in[0], b = in[1], c = in[2], d = in[3], r;
        {body}
        o[0] = r;
    }}"""
    data = np.array([*values, 0, 0, 0, 0][:4], DTYPES[type_])
    out = np.zeros(1, DTYPES[type_])
    launch(source, data, out, threads=1, math_mode=math_mode)
    return float(out[0])


STEPS = [
    feature("language", "half rounds at each step", "half", "r = a + b; r = r + b;", [2048, 1], 2048.0),
    feature("language", "half rounds inside one expression", "half", "r = a + b + b;", [2048, 1], 2048.0),
    feature(
        "language", "half overflows to infinity in the middle", "half", "r = (a + a) * b;", [60000, 0.5], float("inf")
    ),
    feature("language", "half division rounds once", "half", "r = a / b;", [1, 3], float(np.float16(1 / 3))),
    feature("language", "half subnormals are kept", "half", "r = a * b;", [2.0**-14, 0.25], 2.0**-16),
    feature("language", "bfloat rounds at each step", "bfloat", "r = a + b; r = r + b;", [256, 1], 256.0),
    feature("language", "bfloat rounds inside one expression", "bfloat", "r = a + b + b;", [256, 1], 256.0),
    feature(
        "language", "bfloat division rounds once", "bfloat", "r = a / b;", [1, 3], float(ml_dtypes.bfloat16(1 / 3))
    ),
    feature("language", "bfloat ties go to even", "bfloat", "r = a * b;", [1.0078125, 1.5], 1.515625),
    feature("language", "float subnormals are kept", "float", "r = a * b;", [2.0**-126, 0.5], 2.0**-127),
    feature(
        "language",
        "float division is correctly rounded",
        "float",
        "r = a / b;",
        [1, 3],
        float(np.float32(1) / np.float32(3)),
    ),
]


@pytest.mark.parametrize(("type_", "body", "values", "expected"), STEPS)
def test_rounding_at_each_step(type_: str, body: str, values: list[float], expected: float) -> None:
    assert compute(body, type_, values) == expected


FUSED = [feature("language", f"safe math fuses a product and a sum of one expression, {t}", t) for t in ULP]


@pytest.mark.parametrize("type_", FUSED)
def test_safe_math_fuses_inside_an_expression(type_: str) -> None:
    e = ULP[type_]
    assert compute("r = a * a + c;", type_, [1 + e, 0, -(1 + 2 * e)]) == e * e
    assert compute("r = a * a - c;", type_, [1 + e, 0, 1 + 2 * e]) == e * e
    assert compute("r = c - a * a;", type_, [1 + e, 0, 1 + 2 * e]) == -e * e


APART = [feature("language", f"safe math rounds twice across statements, {t}", t) for t in ULP]


@pytest.mark.parametrize("type_", APART)
def test_safe_math_does_not_fuse_across_statements(type_: str) -> None:
    e = ULP[type_]
    body = f"{type_} p = a * a; r = p + c;"
    assert compute(body, type_, [1 + e, 0, -(1 + 2 * e)]) == 0


@pytest.mark.feature("language", "#pragma METAL fp contract(off)")
@pytest.mark.parametrize("type_", list(ULP))
def test_contract_off(type_: str) -> None:
    e = ULP[type_]
    values = [1 + e, 0, -(1 + 2 * e)]
    assert compute("r = a * a + c;", type_, values, before="#pragma METAL fp contract(off)") == 0
    assert compute("r = fma(a, a, c);", type_, values, before="#pragma METAL fp contract(off)") == e * e


@pytest.mark.feature("language", "#pragma METAL fp math_mode(safe)")
def test_math_mode_pragma() -> None:
    before = "#pragma METAL fp math_mode(safe)"
    assert compute("r = (a + b) - a;", "float", [2.0**24, 1], math_mode="fast", before=before) == 0
    assert np.isnan(compute("r = a - b;", "float", [np.inf, np.inf], math_mode="fast", before=before))


@pytest.mark.feature("language", "relaxed and fast math may fuse anywhere")
@pytest.mark.parametrize("mode", ["relaxed", "fast"])
def test_other_math_modes(mode: str) -> None:
    e = ULP["float"]
    values = [1 + e, 0, -(1 + 2 * e)]
    assert compute("r = a * a + c;", "float", values, math_mode=mode) in (0.0, e * e)
    assert compute("float p = a * a; r = p + c;", "float", values, math_mode=mode) in (0.0, e * e)
    assert compute("r = fma(a, a, c);", "float", values, math_mode=mode) == e * e


@pytest.mark.feature("language", "safe math keeps NaN, infinity, signed zero and the order of sums")
def test_safe_math_is_ieee() -> None:
    assert np.isnan(compute("r = a - b;", "float", [np.inf, np.inf]))
    assert np.isnan(compute("r = a * b;", "float", [np.inf, 0]))
    assert compute("r = (a + b) - a;", "float", [2.0**24, 1]) == 0
    assert str(compute("r = a * b;", "float", [-1, 0])) == "-0.0"
    assert compute("r = a != a ? 1.0f : 2.0f;", "float", [np.nan]) == 1


CONVERSIONS = [
    feature("language", "float to half rounds to nearest even", "half", "float", 1 + 2.0**-11, 1.0),
    feature("language", "float to half above a tie", "half", "float", 1 + 2.0**-11 + 2.0**-20, 1 + 2.0**-10),
    feature("language", "float to half overflows to infinity", "half", "float", 65520.0, float("inf")),
    feature("language", "float to half keeps the largest number", "half", "float", 65519.0, 65504.0),
    feature("language", "float to half rounds subnormals", "half", "float", 3 * 2.0**-26, 2.0**-24),
    feature("language", "float to bfloat rounds to nearest even", "bfloat", "float", 1 + 2.0**-8, 1.0),
    feature("language", "float to bfloat above a tie", "bfloat", "float", 1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-7),
    feature("language", "float to bfloat overflows to infinity", "bfloat", "float", 3.4e38, float("inf")),
    feature("language", "half to float is exact", "float", "half", 2.0**-24, 2.0**-24),
    feature("language", "bfloat to float is exact", "float", "bfloat", 1.5 * 2.0**100, 1.5 * 2.0**100),
    feature("language", "bfloat to half", "half", "bfloat", 1 + 2.0**-7, 1 + 2.0**-7),
    feature("language", "half to bfloat", "bfloat", "half", 1 + 2.0**-8, 1.0),
    feature("language", "int to half rounds", "half", "int", 2049, 2048.0),
    feature("language", "int to bfloat rounds", "bfloat", "int", 257, 256.0),
    feature("language", "int to float rounds", "float", "int", 16777217, 16777216.0),
    feature("language", "long to float rounds once", "float", "long", 2**62 + 2**38 + 1, 2.0**62 + 2.0**39),
    feature("language", "half to int truncates", "int", "half", -2.75, -2),
    feature("language", "float to uchar truncates", "uchar", "float", 200.9, 200),
    feature("language", "float to long truncates", "long", "float", -(2.0**40) - 2.0**20, -(2**40) - 2**20),
]


@pytest.mark.parametrize(("to", "source_type", "value", "expected"), CONVERSIONS)
def test_conversions(to: str, source_type: str, value: float, expected: float) -> None:
    dtypes = {**DTYPES, "int": np.int32, "long": np.int64, "uchar": np.uint8}
    data, out = np.array([value] * 3, dtypes[source_type]), np.zeros(3, dtypes[to])
    source = (
        f"kernel void k(device const {source_type}* in, device {to}* o, "
        f"uint i [[thread_position_in_grid]]) {{ o[i] = {to}(in[i]); }}"
    )
    launch(source, data, out, threads=3)
    assert [float(v) for v in out] == [expected] * 3


@pytest.mark.feature("language", "half and float mixed: the result is float")
def test_mixed_types() -> None:
    out = np.zeros(3, np.float32)
    source = """
    kernel void k(device float* o, constant half& h, constant float& f, constant int& i) {
        o[0] = h + f; o[1] = h * 3 + i; o[2] = sizeof(h + f) * 10 + sizeof(h * i);
    }"""
    launch(source, out, np.float16(2048), np.float32(1), np.int32(1), threads=1)
    assert out.tolist() == [2049, 6144, 42]


@pytest.mark.feature("language", "half literals")
def test_half_literals() -> None:
    out = np.zeros(3, np.float16)
    launch("kernel void k(device half* o) { o[0] = 1.5h; o[1] = 2.H; o[2] = .5h + 1e-3h; }", out, threads=1)
    assert out.tolist() == [1.5, 2.0, float(np.float16(0.5) + np.float16(1e-3))]
