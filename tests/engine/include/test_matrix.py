"""floatCxR and halfCxR: columns, constructors, products, transpose, determinant."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.include.probe import Array, row

SHAPES = [(c, r) for c in (2, 3, 4) for r in (2, 3, 4)]


def entries(expression: str, columns: int, rows: int) -> list[str]:
    return [f"({expression})[{c}][{r}]" for c in range(columns) for r in range(rows)]


def declare(name: str, kind: str, m: Array) -> str:
    """A matrix variable; row c of *m* is column c."""
    return f"{kind}{m.shape[0]}x{m.shape[1]} {name}({', '.join(str(float(x)) for x in m.ravel())});"


@pytest.mark.feature("types", "matrix sizes")
def test_sizes() -> None:
    names = [(c, r) for c, r in SHAPES]
    got = row([f"sizeof(float{c}x{r})" for c, r in names] + [f"sizeof(half{c}x{r})" for c, r in names], "uint")
    assert got == [4 * c * (4 if r == 3 else r) for c, r in names] + [2 * c * (4 if r == 3 else r) for c, r in names]


@pytest.mark.feature("types", "matrix constructors")
def test_constructors() -> None:
    assert row(entries("float3x3(2)", 3, 3)) == [2, 0, 0, 0, 2, 0, 0, 0, 2]
    assert row(entries("float2x3(float3(1, 2, 3), float3(4, 5, 6))", 2, 3)) == [1, 2, 3, 4, 5, 6]
    assert row(entries("float3x2(1, 2, 3, 4, 5, 6)", 3, 2)) == [1, 2, 3, 4, 5, 6]
    assert row(entries("float2x2(half2x2(1.5h, 2.5h, 3.5h, 4.5h))", 2, 2)) == [1.5, 2.5, 3.5, 4.5]


def test_columns_are_lvalues() -> None:
    setup = "float4x4 m(0); m[1] = float4(1, 2, 3, 4); m[2].xy = float2(5, 6); m[3][2] = 7; m[1][0] += 10;"
    assert row(entries("m", 4, 4), setup=setup) == [0, 0, 0, 0, 11, 2, 3, 4, 5, 6, 0, 0, 0, 0, 7, 0]


@pytest.mark.feature("types", "matrix products")
@pytest.mark.parametrize(
    ("kind", "columns", "rows"),
    [*(("float", c, r) for c, r in SHAPES), pytest.param("half", 4, 3, marks=pytest.mark.sweep)],
)
def test_products(kind: str, columns: int, rows: int) -> None:
    rng = np.random.default_rng(columns * 10 + rows)
    # Small integers, so that every order of summation is exact.
    a = rng.integers(-4, 5, (columns, rows))
    b = rng.integers(-4, 5, (3, columns))
    v, w = rng.integers(-4, 5, columns), rng.integers(-4, 5, rows)
    setup = (
        declare("a", kind, a)
        + declare("b", kind, b)
        + f"{kind}{columns} v({', '.join(map(str, v))}); {kind}{rows} w({', '.join(map(str, w))});"
        # Each once: in every expression anew they make a kernel of 30,000 lines.
        + "auto ab = a * b; auto av = a * v; auto wa = w * a; auto t = transpose(a); auto d = 2 * a - a * 3;"
    )
    expressions = entries("ab", 3, rows) + [f"av[{r}]" for r in range(rows)] + [f"wa[{c}]" for c in range(columns)]
    expressions += entries("t", rows, columns) + entries("d", columns, rows)
    want = [*(b @ a).ravel(), *(v @ a), *(a @ w), *a.T.ravel(), *(-a).ravel()]
    assert row(expressions, kind, setup=setup) == want


@pytest.mark.feature("types", "matrix determinant")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_determinant(size: int) -> None:
    m = np.random.default_rng(size).integers(-3, 4, (size, size))
    assert row(["determinant(m)"], setup=declare("m", "float", m)) == [round(np.linalg.det(m))]


def test_sums_and_comparison() -> None:
    setup = "float2x2 a(1, 2, 3, 4), b(5, 6, 7, 8); float2x2 c = a; c += b; c *= 2; c -= a; float2x2 d = a; d *= b;"
    assert row(entries("c", 2, 2) + entries("-a", 2, 2), setup=setup) == [11, 14, 17, 20, -1, -2, -3, -4]
    assert row(entries("d", 2, 2) + ["a == a", "a == b", "a != b"], setup=setup) == [23, 34, 31, 46, 1, 0, 1]


def test_matrices_in_device_memory_and_structs() -> None:
    header = "struct Camera { float4x4 view; float3x3 normal; };"
    setup = "Camera c; c.view = float4x4(3); c.normal = float3x3(1); c.view[3] = float4(1, 2, 3, 1);"
    assert row(["sizeof(Camera)", "(c.view * float4(1, 1, 1, 1)).z", "c.normal[2][2]"], header=header, setup=setup) == [
        112,
        6,
        1,
    ]
