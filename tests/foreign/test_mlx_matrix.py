"""MLX's matrix kernels against NumPy: gemv, steel GEMM and its relatives."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

NO_BATCH = np.ones(1, np.int32)
ZERO = np.zeros(2, np.int64)


def check(got: Array, a: Array, b: Array, name: str, more: Any = 0) -> None:
    """Compare with a product: the error of a dot product grows with the magnitudes that it sums."""
    left, right = exact(a), exact(b)
    size = float((np.abs(left) @ np.abs(right)).max())
    close(got, left @ right + more, name, 2, floor=8 * EPSILON["float32"] * size + EPSILON[name])


def gemm_params(
    m: int,
    n: int,
    k: int,
    lda: int,
    ldb: int,
    tile: tuple[int, int, int],
    batch: int = 0,
    steps: tuple[int, int] | None = None,
) -> bytes:
    """GEMMParams of steel/gemm/params.h; *steps* from one matrix of a batch to the next one, of a and of b."""
    bm, bn, bk = tile
    tiles = -(-n // bn), -(-m // bm)
    step_a, step_b = steps or (m * k, k * n)
    return struct.pack("<8i3q3i4x", m, n, k, lda, ldb, n, *tiles, step_a, step_b, m * n, 0, k // bk, batch)


def aligned(m: int, n: int, k: int, tile: tuple[int, int, int]) -> dict[int | str, object]:
    bm, bn, bk = tile
    return {"align_M": m % bm == 0, "align_N": n % bn == 0, "align_K": k % bk == 0}


# suffix -> tile and simdgroups of the instantiation in steel_gemm_fused.metal
GEMMS = {"nn": (32, 32, 16, 2, 2), "nt": (64, 32, 32, 2, 2), "tn": (64, 64, 16, 1, 2), "tt": (64, 64, 16, 2, 2)}


@pytest.mark.feature("corpus", "MLX: steel GEMM")
@pytest.mark.parametrize("form_and_name", swept([(f, n) for f in GEMMS for n in FLOATS], [("nn", "float32")]))
def test_gemm(form_and_name: tuple[str, str]) -> None:
    form, name = form_and_name
    bm, bn, bk, wm, wn = GEMMS[form]
    for m, n, k in ((64, 64, 64), (45, 71, 37)):
        rng = generator(form, name, m)
        a, b = numbers(rng, (m, k), name), numbers(rng, (k, n), name)
        stored_a = np.ascontiguousarray(a.T) if form[0] == "t" else a
        stored_b = np.ascontiguousarray(b.T) if form[1] == "t" else b
        out = np.zeros((m, n), a.dtype)
        params = gemm_params(m, n, k, m if form[0] == "t" else k, k if form[1] == "t" else n, (bm, bn, bk))
        constants = {"has_batch": False, "use_out_source": False, "do_axpby": False, **aligned(m, n, k, (bm, bn, bk))}
        kernel = library("mlx", "steel_gemm_fused").function(f"gemm_{form}_{name}", constants)
        kernel(
            stored_a, stored_b, None, out, params, threadgroups=(-(-n // bn), -(-m // bm), 1), group_size=(32, wn, wm)
        )
        check(out, a, b, name)


@pytest.mark.feature("corpus", "MLX: steel GEMM")
@pytest.mark.parametrize("shape", swept(((2, 32, 32, 32), (3, 33, 17, 19)), ((2, 32, 32, 32),)))
def test_batched_gemm_with_a_source(shape: tuple[int, int, int, int]) -> None:
    """out = alpha a b + beta c, over a batch."""
    count, m, n, k = shape
    rng = generator(shape)
    a, b, c = (numbers(rng, (count, *s), "float32") for s in ((m, k), (k, n), (m, n)))
    # apply_epilogue_safe tests columns alone: it reads the rows of c below the last one to the tile's end, in vain.
    below = np.full(-m % 32 * n, np.nan, np.float32)
    out = np.zeros_like(c)
    constants = {"has_batch": True, "use_out_source": True, "do_axpby": True, **aligned(m, n, k, (32, 32, 16))}
    source = struct.pack("<2iq2f", n, 1, m * n, 2.0, -0.5)
    library("mlx", "steel_gemm_fused").function("gemm_nn_float32", constants)(
        a,
        b,
        np.concatenate([c.ravel(), below]),
        out,
        gemm_params(m, n, k, k, n, (32, 32, 16), 1),
        source,
        np.array([count], np.int32),
        np.array([m * k, k * n, m * n], np.int64),
        threadgroups=(-(-n // 32), -(-m // 32), count),
        group_size=(32, 2, 2),
    )
    for i in range(count):
        check(out[i], 2 * a[i], b[i], "float32", -0.5 * exact(c[i]))


@pytest.mark.feature("corpus", "MLX: split-K GEMM")
@pytest.mark.sweep
@pytest.mark.parametrize("name", FLOATS)
def test_splitk(name: str) -> None:
    """Partial products over parts of K, then their sum."""
    lib = library("mlx", "steel_gemm_splitk")
    parts = 2
    for m, n, k in ((16, 16, 128), (13, 21, 96)):
        rng = generator(name, m)
        a, b = numbers(rng, (m, k), name), numbers(rng, (k, n), name)
        partial = np.zeros((parts, m, n), np.float32)
        tiles = -(-n // 16), -(-m // 16)
        params = struct.pack("<13i", m, n, k, k, n, n, *tiles, parts, m * n, k // parts, 0, k // parts // 16)
        lib.function(f"splitk_nn_{name}")(a, b, partial, params, threadgroups=(*tiles, parts), group_size=(32, 2, 2))
        out = np.zeros((m, n), DTYPES[name])
        lib.function(f"splitk_accum_{name}")(
            partial, out, *map(np.int32, (parts, m * n, n)), threads=(n, m), group_size=(16, 16)
        )
        check(out, a, b, name)


@pytest.mark.feature("corpus", "MLX: gathered GEMM")
@pytest.mark.sweep
@pytest.mark.parametrize("shape", ((32, 32, 32), (21, 35, 19)))
def test_gather_mm(shape: tuple[int, int, int]) -> None:
    """Products of matrices that two arrays of indices choose."""
    m, n, k = shape
    rng = generator(shape)
    a, b = numbers(rng, (4, m, k), "float32"), numbers(rng, (3, k, n), "float32")
    left, right = np.array([3, 0, 1, 1], np.uint32), np.array([0, 2, 2, 1], np.uint32)
    out = np.zeros((4, m, n), np.float32)
    constants = {"has_batch": False, **aligned(m, n, k, (32, 32, 16))}
    one = np.array([1], np.int64)
    library("mlx", "steel_gemm_gather").function("gather_mm_nn_float32", constants)(
        a,
        b,
        left,
        right,
        out,
        # Without has_batch the steps are those of the indices, as matmul.cpp passes them.
        gemm_params(m, n, k, k, n, (32, 32, 16), 1, steps=(1, 1)),
        np.array([4], np.int32),
        one,
        one,
        np.int32(1),
        np.array([4], np.int32),
        np.array([m * k], np.int64),
        np.int32(1),
        np.array([3], np.int32),
        np.array([k * n], np.int64),
        threadgroups=(-(-n // 32), -(-m // 32), 4),
        group_size=(32, 2, 2),
    )
    for i in range(4):
        check(out[i], a[left[i]], b[right[i]], "float32")


@pytest.mark.feature("corpus", "MLX: segmented GEMM")
@pytest.mark.sweep
@pytest.mark.parametrize("shape", ((32, 32, 64), (23, 41, 53)))
def test_segmented_mm(shape: tuple[int, int, int]) -> None:
    """Products over ranges of K, one result for each."""
    m, n, k = shape
    rng = generator(shape)
    a, b = numbers(rng, (m, k), "float32"), numbers(rng, (k, n), "float32")
    segments = np.array([[0, 32], [32, k], [5, 21]], np.uint32)
    out = np.zeros((3, m, n), np.float32)
    constants = {"segments_contiguous": True, "align_M": m % 32 == 0, "align_N": n % 32 == 0}
    library("mlx", "steel_gemm_segmented").function("segmented_mm_nn_float32", constants)(
        a,
        b,
        segments,
        out,
        gemm_params(m, n, k, k, n, (32, 32, 16)),
        threadgroups=(-(-n // 32), -(-m // 32), 3),
        group_size=(32, 2, 2),
    )
    for i, (start, stop) in enumerate(segments.tolist()):
        check(out[i], a[:, start:stop], b[start:stop], "float32")


@pytest.mark.feature("corpus", "MLX: gemv")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", ("gemv", "gemv_t"))
def test_gemv(form: str, name: str) -> None:
    kernel = library("mlx", "gemv").function(f"{form}_{name}")
    for rows, columns in ((64, 128), (45, 77)):
        rng = generator(form, name, rows)
        matrix, vector = numbers(rng, (rows, columns), name), numbers(rng, rows if form == "gemv_t" else columns, name)
        size = columns if form == "gemv_t" else rows
        out = np.zeros(size, matrix.dtype)
        # gemv: 4 simdgroups of 4 rows; gemv_t: 2 simdgroups of 4 x 4 columns
        groups, group = (-(-size // 16), (32, 1, 4)) if form == "gemv" else (-(-size // 32), (32, 2, 1))
        kernel(
            matrix,
            vector,
            None,
            out,
            *map(np.int32, (len(vector), size, columns)),
            np.float32(1),
            np.float32(0),
            np.int32(1),
            NO_BATCH,
            ZERO,
            ZERO,
            None,
            None,
            threadgroups=(groups, 1, 1),
            group_size=group,
        )
        check(out, matrix.T if form == "gemv_t" else matrix, vector, name)


@pytest.mark.feature("corpus", "MLX: gemv")
@pytest.mark.parametrize("shape", ((2, 32, 128), (3, 19, 45)))
def test_batched_gemv_with_a_bias(shape: tuple[int, int, int]) -> None:
    count, rows, columns = shape
    rng = generator(shape)
    matrix, vector = numbers(rng, shape, "float32"), numbers(rng, (count, columns), "float32")
    bias, out = numbers(rng, (count, rows), "float32"), np.zeros((count, rows), np.float32)
    step = np.array([rows * columns], np.int64), np.array([columns], np.int64), np.array([rows], np.int64)
    library("mlx", "gemv").function("gemv_axpby_float32")(
        matrix,
        vector,
        bias,
        out,
        *map(np.int32, (columns, rows, columns)),
        np.float32(2),
        np.float32(-0.5),
        np.int32(1),
        np.array([count], np.int32),
        step[1],
        step[0],
        step[2],
        np.int32(1),
        threadgroups=(rows, 1, count),
        group_size=(32, 8, 1),
    )
    for i in range(count):
        check(out[i], 2 * matrix[i], vector[i], "float32", -0.5 * exact(bias[i]))


@pytest.mark.feature("corpus", "MLX: gemv")
@pytest.mark.parametrize("name", swept(FLOATS, ("float16",)))
def test_wide_gemv(name: str) -> None:
    """A few vectors at once."""
    constants = {"gemv_wide_has_batch": False, "gemv_wide_do_axpby": False}
    kernel = library("mlx", "gemv").function(f"gemv_wide_{name}", constants)
    for m, n, k in ((4, 32, 512), (6, 13, 76)):
        rng = generator(name, m)
        vectors, matrix = numbers(rng, (m, k), name), numbers(rng, (n, k), name)
        out = np.zeros((m, n), vectors.dtype)
        kernel(
            matrix,
            vectors,
            None,
            out,
            *map(np.int32, (k, n, m, k, k)),
            None,
            None,
            np.int32(1),
            NO_BATCH,
            ZERO,
            ZERO,
            threadgroups=(1, -(-n // 4), 1),
            group_size=(32, 1, 1),
        )
        check(out, vectors, matrix.T, name)
