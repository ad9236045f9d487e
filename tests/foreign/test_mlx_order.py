"""MLX's scans, sorts and searches against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.foreign.arrays import EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

SCANS: dict[str, Callable[[Array], Array]] = {
    "inclusive_sum": lambda x: np.cumsum(x, -1),
    "exclusive_sum": lambda x: np.cumsum(x, -1) - x,
    "reverse_sum": lambda x: np.cumsum(x[..., ::-1], -1)[..., ::-1],
    "reverse_exclusive_sum": lambda x: np.cumsum(x[..., ::-1], -1)[..., ::-1] - x,
    "inclusive_prod": lambda x: np.cumprod(x, -1),
    "inclusive_max": lambda x: np.maximum.accumulate(x, -1),
    "inclusive_min": lambda x: np.minimum.accumulate(x, -1),
    "inclusive_logaddexp": lambda x: np.logaddexp.accumulate(x, -1),
}


def check_scan(got: Array, x: Array, op: str, name: str) -> None:
    want = SCANS[op](exact(x))
    if name not in FLOATS or op.endswith(("max", "min")):
        np.testing.assert_array_equal(exact(got), want)
    elif op.endswith("sum"):
        # Each element may carry the rounding of every partial sum before it.
        close(got, want, name, 4, floor=8 * EPSILON[name] * float(np.abs(exact(x)).sum(-1).max()))
    else:
        close(got, want, name, x.shape[-1] / 4 if op.endswith("prod") else 32, floor=1e-6)


def scanned(rng: np.random.Generator, shape: tuple[int, int], op: str, name: str) -> Array:
    x = numbers(rng, shape, name, 0.02 if op.endswith("prod") else 1.0)
    return (x + x.dtype.type(1)).astype(x.dtype) if op.endswith("prod") else x


@pytest.mark.feature("corpus", "MLX: scan")
@pytest.mark.parametrize("name", (*FLOATS, "int32"))
@pytest.mark.parametrize("op", swept(SCANS, ("inclusive_sum", "reverse_exclusive_sum", "inclusive_max")))
def test_scan_of_rows(op: str, name: str) -> None:
    if name == "int32" and op.endswith(("prod", "logaddexp")):
        pytest.xfail("powers of 50 overflow; logaddexp has no integers")
    kernel = library("mlx", "scan").function(f"contiguous_{op}_{name}")
    for rows, size in ((5, 1024), (3, 777)):
        x = scanned(generator(op, name, size), (rows, size), op, name)
        out = np.zeros_like(x)
        kernel(x, out, np.uint64(size), threads=(128, rows, 1), group_size=(128, 1, 1))
        check_scan(out, x, op, name)


@pytest.mark.feature("corpus", "MLX: scan")
@pytest.mark.parametrize("name", swept((*FLOATS, "int32"), ("float32", "int32")))
@pytest.mark.parametrize("op", swept(("inclusive_sum", "reverse_sum", "inclusive_min"), ("inclusive_sum",)))
def test_scan_of_columns(op: str, name: str) -> None:
    kernel = library("mlx", "scan").function(f"strided_{op}_{name}")
    for size, stride in ((96, 64), (71, 45)):
        x = scanned(generator(op, name, size), (size, stride), op, name)
        out = np.zeros_like(x)
        blocks = -(-stride // 32)
        kernel(
            x,
            out,
            np.uint64(size),
            np.uint64(stride),
            np.uint64(blocks),
            threads=(256, blocks, 1),
            group_size=(256, 1, 1),
        )
        check_scan(np.ascontiguousarray(out.T), np.ascontiguousarray(x.T), op, name)


@pytest.mark.feature("corpus", "MLX: sort")
@pytest.mark.parametrize("name", (*FLOATS, "int32"))
def test_sort_in_one_block(name: str) -> None:
    kernel = library("mlx", "sort").function(f"block_sort_{name}")
    for rows, size in ((4, 128), (3, 97)):
        x = numbers(generator(name, size), (rows, size), name)
        if name in FLOATS:
            x[0, 5] = np.nan  # sorted last
        out = np.zeros_like(x)
        kernel(x, out, *map(np.int32, (size, 1, 1, size, size)), threadgroups=(1, rows, 1), group_size=32)
        np.testing.assert_array_equal(exact(out), np.sort(exact(x), -1))


@pytest.mark.feature("corpus", "MLX: sort")
@pytest.mark.parametrize("name", swept((*FLOATS, "int32"), ("float16",)))
def test_argsort(name: str) -> None:
    kernel = library("mlx", "sort").function(f"block_argsort_{name}")
    for rows, size in ((2, 256), (3, 233)):
        x = numbers(generator("arg", name, size), (rows, size), name)
        out = np.zeros((rows, size), np.uint32)
        kernel(x, out, *map(np.int32, (size, 1, 1, size, size)), threadgroups=(1, rows, 1), group_size=64)
        np.testing.assert_array_equal(np.sort(out, -1), np.broadcast_to(np.arange(size), (rows, size)))
        np.testing.assert_array_equal(np.take_along_axis(exact(x), out.astype(np.int64), -1), np.sort(exact(x), -1))


@pytest.mark.feature("corpus", "MLX: sort")
@pytest.mark.parametrize("shape", ((3, 64, 5), (2, 51, 7)))
def test_sort_of_a_middle_axis(shape: tuple[int, int, int]) -> None:
    x = numbers(generator(shape), shape, "float32")
    out = np.zeros_like(x)
    outer = np.array([shape[0], shape[2]], np.int32)
    step = np.array([shape[1] * shape[2], 1], np.int64)
    library("mlx", "sort").function("block_sort_nc_float32")(
        x,
        out,
        *map(np.int32, (shape[1], shape[2], shape[2], 2)),
        outer,
        step,
        step,
        threadgroups=(1, shape[0] * shape[2], 1),
        group_size=32,
    )
    np.testing.assert_array_equal(out, np.sort(x, 1))


@pytest.mark.sweep
@pytest.mark.feature("corpus", "MLX: sort")
@pytest.mark.parametrize("name", swept((*FLOATS, "int32"), ("float32",)))
def test_sort_in_many_blocks(name: str) -> None:
    """Blocks of 128 are sorted, then merged in rounds."""
    lib = library("mlx", "sort")
    for rows, size in ((2, 1024), (3, 701)):
        x = numbers(generator("many", name, size), (rows, size), name)
        blocks = -(-size // 128)
        values, indices = [np.zeros_like(x) for _ in range(2)], [np.zeros(x.shape, np.uint32) for _ in range(2)]
        outer: tuple[Any, ...] = (np.int32(1), np.array([rows], np.int32), np.array([size], np.int64))
        lib.function(f"mb_block_sort_{name}")(
            x, values[0], indices[0], np.int32(size), np.int32(1), *outer, threadgroups=(blocks, rows, 1), group_size=32
        )
        parts = np.zeros((rows, blocks + 1), np.uint32)
        tiles = 2
        while tiles // 2 < blocks:
            lib.function(f"mb_block_partition_{name}")(
                parts,
                values[0],
                indices[0],
                *map(np.int32, (size, tiles, blocks)),
                threadgroups=(1, rows, 1),
                group_size=blocks + 1,
            )
            lib.function(f"mb_block_merge_{name}")(
                parts,
                values[0],
                indices[0],
                values[1],
                indices[1],
                *map(np.int32, (size, tiles, blocks)),
                threadgroups=(blocks, rows, 1),
                group_size=32,
            )
            values.reverse()
            indices.reverse()
            tiles *= 2
        np.testing.assert_array_equal(exact(values[0]), np.sort(exact(x), -1))
        np.testing.assert_array_equal(np.take_along_axis(x, indices[0].astype(np.int64), -1), values[0])


@pytest.mark.feature("corpus", "MLX: searchsorted")
@pytest.mark.parametrize("name", (*FLOATS, "int32"))
@pytest.mark.parametrize("side", ("left", "right"))
def test_searchsorted(side: str, name: str) -> None:
    kernel = library("mlx", "searchsorted").function(f"searchsorted_{side}_{name}")
    for count, size in ((256, 128), (77, 91)):
        rng = generator(side, name, size)
        order, values = np.sort(numbers(rng, size, name)), numbers(rng, count, name)
        values[::5] = order[:: max(1, size // len(values[::5]))][: len(values[::5])]
        out = np.zeros(count, np.uint32)
        kernel(order, values, out, np.uint32(size), np.int64(1), threads=(count, 1, 1), group_size=(64, 1, 1))
        np.testing.assert_array_equal(
            out, np.searchsorted(exact(order), exact(values), "left" if side == "left" else "right")
        )
