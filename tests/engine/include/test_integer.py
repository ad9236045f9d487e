"""Integer functions against Python's unbounded integers, at the edges of every type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.include.probe import DTYPES, Array, parts, probe, row

TYPES = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")


def edges(name: str) -> list[int]:
    info = np.iinfo(DTYPES[name])
    values = {info.min, info.min + 1, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3, 5, 77, 100}
    if info.min < 0:
        values |= {-1, -2, -3, -100, info.min // 2}
    return sorted(values)


def wrap(value: int, name: str) -> int:
    bits = DTYPES[name].itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.iinfo(DTYPES[name]).min < 0 and value >> (bits - 1) else value


def saturate(value: int, name: str) -> int:
    info = np.iinfo(DTYPES[name])
    return min(max(value, int(info.min)), int(info.max))


def pairs(name: str) -> tuple[Array, Array]:
    values = edges(name)
    grid = [(x, y) for x in values for y in values]
    return np.array([g[0] for g in grid], DTYPES[name]), np.array([g[1] for g in grid], DTYPES[name])


@pytest.mark.feature("types", "integer functions of two operands")
@pytest.mark.parametrize("name", TYPES)
def test_two_operands(name: str) -> None:
    x, y = pairs(name)
    bits = DTYPES[name].itemsize * 8
    mask = (1 << bits) - 1
    rules: dict[str, Callable[[int, int], int]] = {
        "addsat(x, y)": lambda a, b: saturate(a + b, name),
        "subsat(x, y)": lambda a, b: saturate(a - b, name),
        "hadd(x, y)": lambda a, b: (a + b) >> 1,
        "rhadd(x, y)": lambda a, b: (a + b + 1) >> 1,
        "mulhi(x, y)": lambda a, b: wrap((a * b) >> bits, name),
        "min(x, y)": min,
        "max(x, y)": max,
        "rotate(x, y)": lambda a, b: wrap(((a & mask) << (b % bits) | (a & mask) >> (-b % bits)), name),
        "absdiff(x, y)": lambda a, b: wrap(abs(a - b), name),
    }
    got = probe(list(rules), name, x=x, y=y)
    for column, rule in enumerate(rules.values()):
        want = [rule(int(a), int(b)) for a, b in zip(x, y, strict=True)]
        assert got[:, column].tolist() == want, list(rules)[column]


@pytest.mark.feature("types", "integer functions of one operand")
@pytest.mark.parametrize("name", TYPES)
def test_one_operand(name: str) -> None:
    x = np.array(edges(name), DTYPES[name])
    bits = DTYPES[name].itemsize * 8
    mask = (1 << bits) - 1

    def ctz(a: int) -> int:
        return bits if a == 0 else (a & -a).bit_length() - 1

    rules: dict[str, Callable[[int], int]] = {
        "abs(x)": lambda a: wrap(abs(a), name),
        "clz(x)": lambda a: bits - (a & mask).bit_length(),
        "ctz(x)": lambda a: ctz(a & mask),
        "popcount(x)": lambda a: (a & mask).bit_count(),
        "reverse_bits(x)": lambda a: wrap(int(f"{a & mask:0{bits}b}"[::-1], 2), name),
    }
    got = probe(list(rules), name, x=x)
    for column, rule in enumerate(rules.values()):
        assert got[:, column].tolist() == [rule(int(a)) for a in x], list(rules)[column]


@pytest.mark.feature("types", "integer multiply-add")
@pytest.mark.parametrize("name", ["char", "uint", "long", "ulong"])
def test_three_operands(name: str) -> None:
    values = edges(name)[::2]
    grid = np.array([(a, b, c) for a in values for b in values for c in values], DTYPES[name])
    bits = DTYPES[name].itemsize * 8
    rules: dict[str, Callable[[int, int, int], int]] = {
        "madhi(x, y, z)": lambda a, b, c: wrap((a * b >> bits) + c, name),
        "madsat(x, y, z)": lambda a, b, c: saturate(a * b + c, name),
        "min3(x, y, z)": min,
        "max3(x, y, z)": max,
        "median3(x, y, z)": lambda a, b, c: sorted((a, b, c))[1],
        "clamp(x, min(y, z), max(y, z))": lambda a, b, c: min(max(a, min(b, c)), max(b, c)),
    }
    columns = {n: np.ascontiguousarray(grid[:, k]) for k, n in enumerate("xyz")}
    got = probe(list(rules), name, **columns)
    for column, rule in enumerate(rules.values()):
        assert got[:, column].tolist() == [rule(*map(int, g)) for g in grid], list(rules)[column]


@pytest.mark.feature("types", "extract_bits and insert_bits")
@pytest.mark.parametrize("name", ["char", "ushort", "int", "ulong"])
def test_bit_fields(name: str) -> None:
    bits = DTYPES[name].itemsize * 8
    mask = (1 << bits) - 1
    fields = [(o, n) for o in (0, 1, 3, bits - 1) for n in (0, 1, 4, bits) if o + n <= bits]
    base, insert = wrap(0xA5C3_96F0_1234_8765, name), wrap(0x5A3C_690F_EDCB_789A, name)
    signed = np.iinfo(DTYPES[name]).min < 0

    def extract(o: int, n: int) -> int:
        value = (base & mask) >> o & ((1 << n) - 1)
        return value - (1 << n) if signed and n and value >> (n - 1) else value

    def merge(o: int, n: int) -> int:
        hole = ((1 << n) - 1) << o
        return wrap((base & ~hole) | ((insert << o) & hole), name)

    x, y = np.array([base], DTYPES[name]), np.array([insert], DTYPES[name])
    assert row([f"extract_bits(x, {o}, {n})" for o, n in fields], name, x=x) == [extract(o, n) for o, n in fields]
    assert row([f"insert_bits(x, y, {o}, {n})" for o, n in fields], name, x=x, y=y) == [merge(o, n) for o, n in fields]


@pytest.mark.feature("types", "24-bit multiplication")
def test_24_bit_products() -> None:
    x = np.array([0x01000003, 0x00FFFFFF, 5, 0x7FFFFFFF], np.uint32)
    got = probe(["mul24(x, 3u)", "mad24(x, 3u, 10u)"], "uint", x=x)
    want = [(int(v) & 0xFFFFFF) * 3 & 0xFFFFFFFF for v in x]
    assert got[:, 0].tolist() == want
    assert got[:, 1].tolist() == [w + 10 for w in want]
    assert row(["mul24(-5, 7)", "mad24(-5, 7, 3)", "mul24(0xffffff, 2)"], "int") == [-35, -32, -2]


def test_vectors_go_element_by_element() -> None:
    v = np.array([[1, -8, 0x7FFFFFFF, 0]], np.int32)
    made = {
        "clz(v)": [31, 0, 1, 32],
        "popcount(v)": [1, 29, 31, 0],
        "addsat(v, 1)": [2, -7, 0x7FFFFFFF, 1],
        "max(v, 0)": [1, 0, 0x7FFFFFFF, 0],
        "abs(v)": [1, 8, 0x7FFFFFFF, 0],
        "rotate(v, int4(1, 1, 1, 1))": [2, -15, -2, 0],
        "extract_bits(v, 0, 2)": [1, 0, -1, 0],
    }
    assert row([c for e in made for c in parts(e, 4)], "int", v=v) == [x for want in made.values() for x in want]


def test_results_keep_narrow_types() -> None:
    header = """
static_assert(is_same_v<decltype(max(uchar(1), uchar(2))), uchar>);
static_assert(is_same_v<decltype(absdiff(char(1), char(2))), uchar>);
static_assert(is_same_v<decltype(absdiff(int2(1), int2(2))), uint2>);
static_assert(is_same_v<decltype(clz(ushort(1))), ushort>);
static_assert(is_same_v<decltype(abs(short(1))), short>);
"""
    assert row(["1"], header=header) == [1]
