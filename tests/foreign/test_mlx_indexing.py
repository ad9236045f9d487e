"""MLX's gathers and scatters against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metalcore.errors
from tests.foreign.arrays import EPSILON, FLOATS, Array, close, exact, generator, numbers, strides, swept
from tests.foreign.corpus import library

TYPES = (*FLOATS, "int32")


def row_major(shape: tuple[int, ...]) -> Array:
    return strides(np.empty(shape, np.int8))


@pytest.mark.feature("corpus", "MLX: gather")
@pytest.mark.parametrize("name", swept(TYPES, ("float32", "bfloat16")))
def test_gather_with_two_index_arrays(name: str) -> None:
    """x[i, :, j]: slices along the middle axis, negative indices included."""
    kernel = library("mlx", "indexing").function(f"gather_two_1_{name}")
    for shape, count in (((8, 16, 8), 32), ((5, 7, 9), 13)):
        rng = generator(name, count)
        x = numbers(rng, shape, name)
        first, last = (rng.integers(-shape[i], shape[i], count).astype(np.int32) for i in (0, 2))
        out = np.zeros((count, shape[1]), x.dtype)
        kernel(
            x,
            out,
            np.array(shape, np.int32),
            strides(x),
            np.uint64(3),
            np.array([1, shape[1], 1], np.int32),
            np.array([0, 2], np.int32),
            np.array([count, count], np.int32),
            np.array([1, 1], np.int64),
            np.array([True, True]),
            np.int32(1),
            *[None] * 9,
            first,
            last,
            threads=(count, 1, shape[1]),
            group_size=(8, 1, 8),
        )
        np.testing.assert_array_equal(out, x[first, :, last])


def along_axis(kernel: Any, source: Any, index: Any, out: Any, stride: int, size: int) -> None:
    """gather_axis or scatter_axis over the middle dimension of three, of so many elements."""
    before, picks, after = index.shape
    steps = [np.array([step, 1], np.int64) for step in (stride, picks * after)]
    numbers_of_axis = (np.uint64(2), np.int32(1), np.int32(size), np.uint64(after), np.uint64(after))
    arguments = (source, index, out, np.array([before, after], np.int32), *steps, *numbers_of_axis)
    kernel(*arguments, threads=(after, picks, before), group_size=(4, 4, 2))


@pytest.mark.feature("corpus", "MLX: gather")
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("form", swept(("gather_axis", "gather_axis_strided"), ("gather_axis",)))
def test_gather_along_an_axis(form: str, name: str) -> None:
    kernel = library("mlx", "indexing").function(f"{form}_{name}")
    for before, size, picks, after in ((3, 16, 8, 4), (5, 7, 11, 3)):
        rng = generator(form, name, size)
        x = numbers(rng, (before, size, after), name)
        index = rng.integers(-size, size, (before, picks, after)).astype(np.int32)
        out = np.zeros(index.shape, x.dtype)
        along_axis(kernel, x, index, out, size * after, size)
        np.testing.assert_array_equal(out, np.take_along_axis(x, index.astype(np.int64), 1))


@pytest.mark.feature("corpus", "MLX: gather")
@pytest.mark.parametrize("name", swept(TYPES, ("float16",)))
def test_gather_of_rows(name: str) -> None:
    kernel = library("mlx", "indexing").function(f"gather_front_{name}")
    for rows, width, count in ((16, 64, 24), (9, 37, 15)):
        rng = generator("front", name, rows)
        x, index = numbers(rng, (rows, width), name), rng.integers(0, rows, count).astype(np.uint32)
        out = np.zeros((count, width), x.dtype)
        kernel(x, index, out, np.int64(width), np.int32(rows), threads=(-(-width // 4), count), group_size=(8, 8))
        np.testing.assert_array_equal(out, x[index])


@pytest.mark.feature("corpus", "MLX: scatter")
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("op", swept(("sum", "none", "max", "min", "prod"), ("sum", "max")))
def test_scatter(op: str, name: str) -> None:
    """Rows of updates into rows of an array; indices repeat, but for `none`."""
    kernel = library("mlx", "indexing").function(f"scatter_{op}_{name}")
    update = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
    for rows, width, count in ((16, 8, 40), (11, 5, 33)):
        rng = generator(op, name, rows)
        # Atomics on 16 bits work on whole words, so the array ends on one, as MLX's allocations do.
        whole = numbers(rng, rows * width + 1, name)
        out, updates = whole[: rows * width].reshape(rows, width), numbers(rng, (count, 1, width), name)
        if op == "prod":
            updates = rng.choice([-1, 1, 2], updates.shape).astype(out.dtype)
        index = rng.integers(0 if op == "none" else -rows, rows, count)
        if op == "none":
            index = rng.permutation(rows)
            updates, count = updates[:rows], rows
        index = index.astype(np.uint32 if op == "none" else np.int32)
        want, size = exact(out), np.abs(exact(out))
        if op == "none":
            want[index] = exact(updates[:, 0])
        else:
            update[op].at(want, index, exact(updates[:, 0]))
            np.add.at(size, index, np.abs(exact(updates[:, 0])))
        work = 4 if op == "max" else 1
        kernel(
            None,
            updates,
            whole,
            np.array([count, 1, width], np.int32),
            row_major((count, 1, width)),
            np.uint64(3),
            np.uint64(width),
            np.array(out.shape, np.int32),
            strides(out),
            np.uint64(2),
            np.array([0], np.int32),
            np.array([count], np.int32),
            np.array([1], np.int64),
            np.array([True]),
            np.int32(1),
            np.uint64(count),
            *[None] * 4,
            index,
            threads=(width, -(-count // work)),
            group_size=(8, 8),
        )
        if op == "sum" and name in FLOATS:
            # Each of the repeated additions rounds.
            close(out, want, name, 2, floor=8 * EPSILON[name] * float(size.max()))
        else:
            np.testing.assert_array_equal(exact(out), want)


@pytest.mark.feature("corpus", "MLX: scatter")
@pytest.mark.parametrize("name", swept(TYPES, ("float32",)))
def test_scatter_along_an_axis(name: str) -> None:
    kernel = library("mlx", "indexing").function(f"scatter_axis_sum_{name}")
    for before, size, picks, after in ((3, 16, 8, 4), (5, 7, 11, 3)):
        rng = generator("axis", name, size)
        # Atomics on 16 bits work on whole words, so the array ends on one, as MLX's allocations do.
        whole = numbers(rng, before * size * after + 1, name)
        out, updates = whole[:-1].reshape(before, size, after), numbers(rng, (before, picks, after), name)
        index = rng.integers(-size, size, updates.shape).astype(np.int32)
        want = exact(out)
        outer, inner = np.arange(before)[:, None, None], np.arange(after)
        np.add.at(want, (outer, index, inner), exact(updates))
        along_axis(kernel, updates, index, whole, picks * after, size)
        if name in FLOATS:
            close(out, want, name, 4, floor=32 * EPSILON[name])
        else:
            np.testing.assert_array_equal(out, want)


@pytest.mark.feature("corpus", "MLX: scatter")
@pytest.mark.parametrize("name", FLOATS)
def test_masked_assignment(name: str) -> None:
    kernel = library("mlx", "masked_scatter").function(f"masked_assign_{name}")
    for size in (256, 171):
        rng = generator("masked", name, size)
        mask, out = numbers(rng, size, "bool_"), numbers(rng, size, name)
        source = numbers(rng, int(mask.sum()), name)
        places = (np.cumsum(mask) - mask).astype(np.uint32)
        want = out.copy()
        want[mask] = source
        kernel(
            mask,
            places,
            source,
            out,
            np.array([source.size], np.int32),
            np.array([1], np.int64),
            np.int32(1),
            np.int64(source.size),
            np.int64(size),
            threads=size,
            group_size=64,
        )
        np.testing.assert_array_equal(out, want)


@pytest.mark.feature("corpus", "MLX: slice update")
@pytest.mark.parametrize("shape", ((8, 16), (5, 7)))
def test_slice_update(shape: tuple[int, int]) -> None:
    """out[1:, 2:] += updates."""
    rng = generator(shape)
    out, updates = numbers(rng, (shape[0] + 3, shape[1] + 5), "float32"), numbers(rng, shape, "float32")
    want = out.copy()
    want[1 : shape[0] + 1, 2 : shape[1] + 2] += updates
    library("mlx", "indexing").function("slice_update_float32")(
        updates,
        out,
        np.array(shape, np.int32),
        strides(updates),
        np.int32(2),
        np.int64(updates.size),
        strides(out),
        np.int64(out.shape[1] + 2),
        threads=(shape[1], shape[0], 1),
        group_size=(4, 4, 1),
    )
    np.testing.assert_array_equal(out, want)


@pytest.mark.feature("corpus", "MLX: scatter")
def test_scatter_past_the_end_stops() -> None:
    """Adding to a half takes a compare-and-exchange loop; out of bounds it ends, and the launch says why."""
    out, updates = np.zeros((2, 3), np.float16), np.ones((2, 1, 3), np.float16)
    index = np.array([0, 5], np.int32)
    with pytest.raises(metalcore.errors.KernelFault, match="out of bounds"):
        library("mlx", "indexing").function("scatter_sum_float16")(
            None,
            updates,
            out,
            np.array([2, 1, 3], np.int32),
            row_major((2, 1, 3)),
            np.uint64(3),
            np.uint64(3),
            np.array(out.shape, np.int32),
            strides(out),
            np.uint64(2),
            np.array([0], np.int32),
            np.array([2], np.int32),
            np.array([1], np.int64),
            np.array([True]),
            np.int32(1),
            np.uint64(2),
            *[None] * 4,
            index,
            threads=(3, 2),
            group_size=(8, 8),
        )
    np.testing.assert_array_equal(out, [[1, 1, 1], [0, 0, 0]])
