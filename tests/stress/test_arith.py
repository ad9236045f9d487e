"""The interpreter's arithmetic against values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.stress import arith
from tests.stress.arith import Undefined
from tests.stress.types import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONG,
    SHORT,
    UCHAR,
    UINT,
    ULONG,
    USHORT,
    Scalar,
    common,
    promote,
    result,
)

half, single = np.float16, np.float32


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (CHAR, CHAR, INT),
        (USHORT, USHORT, INT),
        (BOOL, BOOL, INT),
        (INT, UINT, UINT),
        (LONG, UINT, LONG),
        (LONG, ULONG, ULONG),
        (UINT, USHORT, UINT),
        (HALF, INT, HALF),
        (HALF, ULONG, HALF),
        (HALF, FLOAT, FLOAT),
        (FLOAT, LONG, FLOAT),
    ],
)
def test_usual_arithmetic_conversions(a: Scalar, b: Scalar, expected: Scalar) -> None:
    assert common(a, b) == expected
    assert common(b, a) == expected


def test_shift_has_the_promoted_type_of_its_left_operand() -> None:
    assert result("<<", CHAR, ULONG) == INT
    assert result(">>", UINT, LONG) == UINT
    assert promote(UCHAR) == INT


def test_integer_division_truncates() -> None:
    assert arith.binary("/", INT, -7, 2) == -3
    assert arith.binary("%", INT, -7, 2) == -1
    assert arith.binary("/", INT, 7, -2) == -3
    assert arith.binary("%", INT, 7, -2) == 1


def test_unsigned_wraps_and_signed_overflow_is_caught() -> None:
    assert arith.binary("-", UINT, 0, 1) == 0xFFFFFFFF
    assert arith.binary("*", ULONG, 1 << 63, 2) == 0
    with pytest.raises(Undefined):
        arith.binary("+", INT, 2**31 - 1, 1)
    with pytest.raises(Undefined):
        arith.binary("/", INT, -(2**31), -1)
    with pytest.raises(Undefined):
        arith.binary("/", UINT, 1, 0)


def test_shifts() -> None:
    assert arith.shift(">>", INT, -5, 1) == -3
    assert arith.shift("<<", UINT, 0x80000001, 1) == 2
    for amount in (-1, 32):
        with pytest.raises(Undefined):
            arith.shift("<<", UINT, 1, amount)
    with pytest.raises(Undefined):
        arith.shift("<<", INT, -1, 1)


def test_conversions() -> None:
    assert arith.convert(300, INT, UCHAR) == 44
    assert arith.convert(200, INT, CHAR) == -56
    assert arith.convert(-1, CHAR, ULONG) == 2**64 - 1
    assert arith.convert(single(-3.9), FLOAT, INT) == -3
    assert arith.convert(single(0.1), FLOAT, BOOL) is True
    assert arith.convert(5, INT, BOOL) is True
    # 2^24 + 1 lies between two floats: to even. 2^63 + 2^39 + 1 would round wrongly by way of a double.
    assert arith.convert(16777217, INT, FLOAT) == single(16777216)
    assert arith.convert(2**63 + 2**39 + 1, ULONG, FLOAT) == single(2.0**63 + 2.0**40)
    assert arith.convert(2049, INT, HALF) == half(2048)
    assert arith.convert(65520, INT, HALF) == half(np.inf)
    with pytest.raises(Undefined):
        arith.convert(single(256.0), FLOAT, UCHAR)
    with pytest.raises(Undefined):
        arith.convert(single(np.nan), FLOAT, INT)


def test_half_rounds_at_each_step() -> None:
    # 2048 + 1 is a tie, to even; twice, it never gets off 2048
    step = arith.binary("+", HALF, half(2048), half(1))
    assert step == half(2048)
    assert arith.binary("+", HALF, step, half(1)) == half(2048)
    with np.errstate(over="ignore"):
        assert arith.binary("*", HALF, half(300), half(300)) == half(np.inf)
    assert arith.to_bits(arith.binary("/", HALF, half(1), half(3)), HALF) == 0x3555


def test_fma_rounds_once() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the product alone would round to 1 + 2^-11
    a = single(1 + 2.0**-12)
    assert arith.fma(FLOAT, a, a, single(-(1 + 2.0**-11))) == single(2.0**-24)
    # half: 2049/2048 * 1 has a tail that decides a tie; in double first, the tie would go the other way
    x = half(1 + 2.0**-10)
    assert arith.fma(HALF, x, half(2.0**-24), half(1.0)) == half(1.0)
    assert arith.fma(HALF, half(1.0), half(2.0**-11), half(1.0)) == half(1.0)
    assert arith.fma(HALF, x, half(2.0**-11), half(1.0)) == half(1 + 2.0**-10)
    assert np.signbit(arith.fma(FLOAT, single(-0.0), single(1), single(-0.0)))
    assert not np.signbit(arith.fma(FLOAT, single(1), single(1), single(-1)))
    assert np.isnan(arith.fma(FLOAT, single(np.inf), single(0), single(1)))


def test_half_fma_where_a_double_would_round_twice() -> None:
    # 1 + 2^-11 is a tie in half; the product adds 2^-63, too little for a double to keep, enough to break the tie
    tie = arith.fma(HALF, half(2.0**-11), half(1.0), half(1.0))
    assert tie == half(1.0)
    # 2^-24 * 2^-24 + 2^-11 * ... : a product far below the sum's last bit still counts
    above = arith.round_fraction(HALF, 1 + Fraction(1, 2**11) + Fraction(1, 2**63))
    assert above == half(1 + 2.0**-10)


def test_rounding_to_subnormals_and_infinity() -> None:
    assert arith.round_fraction(HALF, Fraction(1, 2**25)) == half(0)  # a tie between 0 and 2^-24
    assert arith.round_fraction(HALF, Fraction(3, 2**26)) == half(2.0**-24)
    assert arith.round_fraction(HALF, Fraction(65519)) == half(65504)
    assert np.isinf(arith.round_fraction(HALF, Fraction(65520)))
    assert np.isinf(arith.round_fraction(FLOAT, Fraction(2**128 - 2**103)))


def test_vector_components_do_not_promote() -> None:
    assert arith.element_binary("+", UCHAR, 200, 100) == 44
    assert arith.element_binary("*", SHORT, 300, 300) == arith.wrap(SHORT, 90000)
    assert arith.element_binary(">>", CHAR, -128, 7) == -1


def test_bits() -> None:
    assert arith.to_bits(single(1.0), FLOAT) == 0x3F800000
    assert arith.from_bits(0xFF, CHAR) == -1
    assert arith.from_bits(0x3C00, HALF) == half(1)
