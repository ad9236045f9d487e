"""numeric_limits and the limit macros."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, row

INTEGERS = ("char", "uchar", "short", "uint", "long", "ulong")
FLOATS = ("half", "bfloat", "float")


@pytest.mark.feature("types", "numeric_limits of integers")
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    info = np.iinfo(DTYPES[name])
    members = ["min()", "max()", "lowest()"]
    assert row([f"numeric_limits<{name}>::{m}" for m in members], name) == [info.min, info.max, info.min]
    bits = info.bits - (info.min < 0)
    flags = ["digits", "is_signed", "is_integer", "is_specialized", "has_infinity"]
    assert row([f"numeric_limits<{name}>::{m}" for m in flags], "int") == [bits, info.min < 0, 1, 1, 0]


@pytest.mark.feature("types", "numeric_limits of floats")
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    info = ml_dtypes.finfo(DTYPES[name])
    members = ["min()", "max()", "lowest()", "epsilon()", "infinity()", "denorm_min()", "round_error()"]
    got = row([f"numeric_limits<{name}>::{m}" for m in members], name)
    want = [info.smallest_normal, info.max, info.min, info.eps, np.inf, info.smallest_subnormal, 0.5]
    assert got == [float(w) for w in want]
    assert np.isnan(row([f"numeric_limits<{name}>::quiet_NaN()"], name)[0])
    assert row([f"numeric_limits<{name}>::digits", f"numeric_limits<{name}>::max_exponent"], "int") == [
        info.nmant + 1,
        info.maxexp,
    ]


def test_limits_are_constant_expressions() -> None:
    header = """
constant constexpr half top = numeric_limits<half>::max();
static_assert(numeric_limits<const uint8_t>::max() == 255 && numeric_limits<int8_t>::min() == -128);
static_assert(!numeric_limits<float4>::is_specialized && _numeric_limits_impl<float>::is_iec559);
"""
    assert row(
        ["float(top)", "INT_MAX == numeric_limits<int>::max()", "FLT_MAX == numeric_limits<float>::max()"],
        header=header,
    ) == [65504, 1, 1]
