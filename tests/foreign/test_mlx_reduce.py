"""MLX's reductions over everything, rows and columns against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

OPS: dict[str, Callable[..., Any]] = {"Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min}
NONE = np.zeros(1, np.int32), np.zeros(1, np.int64)  # a shape and strides that are not looked at


def check_sum(got: Array, x: Array, axis: int | None, name: str) -> None:
    """Sums may differ by the rounding of partial sums: a few ulps of the sum of magnitudes."""
    want, size = exact(x).sum(axis), np.abs(exact(x)).sum(axis)
    close(got.reshape(np.shape(want)), want, name, 4, floor=4 * EPSILON[name] * float(np.max(size)))


@pytest.mark.feature("corpus", "MLX: reduce all")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", swept(OPS, ("Sum", "Max")))
def test_all(op: str, name: str) -> None:
    kernel = library("mlx", "reduce").function(f"all_{op}_{name}")
    for size in (4096, 2999):
        scale = 0.02 if op == "Prod" else 1.0
        x = numbers(generator(op, name, size), size, name, scale) + (
            DTYPES[name](1) if op == "Prod" else DTYPES[name](0)
        )
        x = x.astype(DTYPES[name])
        out = np.zeros(1, x.dtype)
        kernel(x, out, np.uint64(size), np.uint64(size), threadgroups=(1, 1, 1), group_size=256)
        if op in ("Max", "Min"):
            assert out[0] == OPS[op](x)
        elif op == "Sum":
            check_sum(out, x, None, name)
        else:
            close(out, np.array([np.prod(exact(x))]), name, size / 4)


@pytest.mark.feature("corpus", "MLX: reduce all")
def test_all_of_booleans_integers_and_complex_numbers() -> None:
    lib = library("mlx", "reduce")
    for size in (1024, 999):
        for op, name, reference in (("And", "bool_", np.all), ("Or", "bool_", np.any), ("Sum", "int64", np.sum)):
            x = numbers(generator(op, size), size, name)
            out = np.zeros(1, x.dtype)
            lib.function(f"all_{op}_{name}")(
                x, out, np.uint64(size), np.uint64(size), threadgroups=(1, 1, 1), group_size=96
            )
            assert out[0] == reference(x)


@pytest.mark.feature("corpus", "MLX: reduce all")
def test_all_in_several_groups() -> None:
    """Many threadgroups each reduce a part; the last part is short."""
    x = numbers(generator("parts"), 5 * 1000 - 123, "float32")
    out = np.zeros(5, np.float32)
    library("mlx", "reduce").function("all_Sum_float32")(
        x, out, np.uint64(x.size), np.uint64(1000), threadgroups=(1, 5, 1), group_size=128
    )
    padded = np.concatenate([x, np.zeros(123, np.float32)]).reshape(5, 1000)
    check_sum(out, padded, 1, "float32")


@pytest.mark.feature("corpus", "MLX: reduce init")
@pytest.mark.parametrize("size", (64, 37))
def test_init(size: int) -> None:
    out = np.ones(size, np.float16)
    library("mlx", "reduce").function("init_Sum_float16")(out, threads=(size, 1), group_size=(32, 1))
    assert not out.any()


SHAPES = ((8, 512), (13, 301))


@pytest.mark.feature("corpus", "MLX: reduce rows")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", swept(("simple", "looped", "small"), ("simple", "small")))
def test_rows(form: str, name: str) -> None:
    kernel = library("mlx", "reduce").function(f"row_{form}_Sum_{name}")
    for rows, size in SHAPES if form != "small" else ((64, 12), (37, 11)):
        x = numbers(generator(form, name, size), (rows, size), name)
        out = np.zeros(rows, x.dtype)
        if form == "simple":
            kernel(x, out, np.uint64(size), np.int64(rows), threadgroups=(1, -(-rows // 4), 1), group_size=64)
        else:
            where = np.array([rows], np.int32), np.array([size], np.int64), np.int32(1)
            common = x, out, np.int64(size), np.int64(1), *where, *NONE, np.int32(0)
            if form == "small":
                kernel(*common, threads=(rows, 1, 1), group_size=(32, 1, 1))
            else:
                kernel(*common, threadgroups=(1, rows, 1), group_size=64)
        check_sum(out, x, 1, name)


@pytest.mark.feature("corpus", "MLX: reduce rows")
@pytest.mark.parametrize("shape", ((3, 4, 5, 64), (5, 3, 7, 33)))
def test_rows_and_other_dimensions(shape: tuple[int, int, int, int]) -> None:
    """Reduces axes 0, 2 and 3 at once; axis 1 remains."""
    x = numbers(generator(shape), shape, "float32")
    out = np.zeros(shape[1], np.float32)
    step = [int(s) // 4 for s in x.strides]
    library("mlx", "reduce").function("row_looped_nd_Sum_float32")(
        x,
        out,
        np.int64(shape[3]),
        np.int64(shape[0] * shape[2]),
        np.array([shape[1]], np.int32),
        np.array([step[1]], np.int64),
        np.int32(1),
        np.array([shape[0], shape[2]], np.int32),
        np.array([step[0], step[2]], np.int64),
        np.int32(2),
        threadgroups=(1, shape[1], 1),
        group_size=32,
    )
    want, size = exact(x).sum((0, 2, 3)), np.abs(exact(x)).sum((0, 2, 3))
    close(out, want, "float32", 4, floor=4 * EPSILON["float32"] * float(size.max()))


@pytest.mark.feature("corpus", "MLX: reduce columns")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    "form", swept(("small", "longcolumn", "looped_32_32", "looped_8_128", "2pass"), ("small", "looped_32_32"))
)
def test_columns(form: str, name: str) -> None:
    kernel = library("mlx", "reduce").function(f"col_{form}_Sum_{name}")
    for rows, columns in ((96, 32), (77, 29)):
        x = numbers(generator(form, name, columns), (rows, columns), name)
        out = np.zeros(columns, x.dtype)
        # One output row: nothing to walk over; the reduced axis alone is strided.
        common = (
            np.uint64(rows),
            np.int64(columns),
            np.ones(1, np.int32),
            np.zeros(1, np.int64),
            np.int32(1),
            np.array([rows], np.int32),
            np.array([columns], np.int64),
            np.int32(1),
            np.uint64(1),
        )
        if form == "small":
            kernel(x, out, *common, threadgroups=(-(-columns // 32), 1, 1), group_size=(8, 8, 1))
        elif form == "longcolumn":
            kernel(x, out, *common, np.uint64(columns), threadgroups=(1, 1, 1), group_size=(columns, 32, 1))
        elif form == "2pass":
            partial = np.zeros((32, columns), x.dtype)
            kernel(
                x, partial, *common, np.int64(0), np.uint64(1), threadgroups=(-(-columns // 32), 32, 1), group_size=256
            )
            out[:] = exact(partial).sum(0)
        else:
            width = 32 if form.endswith("_32") else 128
            kernel(x, out, *common, np.int64(0), threadgroups=(-(-columns // width), 1, 1), group_size=256)
        check_sum(out, x, 0, name)
