"""MLX's quantized kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.foreign.arrays import DTYPES, EPSILON, FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

# (group size, bits) of the instantiations in quantized.metal
FORMS = ((64, 4), (32, 2), (64, 3), (32, 5), (64, 6), (128, 8))
ZERO = np.zeros(1, np.int64)
NO_BATCH = (np.int32(0), np.ones(1, np.int32), np.zeros(1, np.int64))


def pack(values: Array, bits: int) -> Array:
    """Whole numbers below 2**bits, in a row of bytes, lowest bits first."""
    plain = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1, bitorder="little")[..., :bits]
    return np.packbits(plain.reshape(*values.shape[:-1], -1), axis=-1, bitorder="little")


def quantized(rng: np.random.Generator, rows: int, size: int, group: int, bits: int, name: str) -> tuple[Array, ...]:
    """Random packed weights with scales and biases, and their values in float64."""
    codes = rng.integers(0, 1 << bits, (rows, size))
    scales = (rng.uniform(0.5, 1.5, (rows, size // group)) / (1 << bits)).astype(DTYPES[name])
    biases = numbers(rng, (rows, size // group), name, 0.5)
    weights = codes * np.repeat(exact(scales), group, 1) + np.repeat(exact(biases), group, 1)
    return pack(codes, bits).view(np.uint32), scales, biases, weights


def check(got: Array, x: Array, weights: Array, name: str) -> None:
    size = float((np.abs(exact(x)) @ np.abs(weights)).max())
    # Tiles of qmm hold weights in the element type.
    close(got, exact(x) @ weights, name, 2, floor=(1e-6 if name == "float32" else EPSILON[name] / 8) * size)


@pytest.mark.feature("corpus", "MLX: quantize and dequantize")
@pytest.mark.parametrize("form", swept(FORMS, ((64, 4), (32, 5))))
def test_quantize_and_back(form: tuple[int, int]) -> None:
    group, bits = form
    lib = library("mlx", "quantized")
    for count in (8, 7):
        w = numbers(generator(form, count), (count, group), "float32")
        packed = np.zeros(count * group * bits // 8, np.uint8)
        scales, biases = np.zeros(count, np.float32), np.zeros(count, np.float32)
        lib.function(f"quantize_float32_{group}_{bits}")(
            w, packed, scales, biases, threads=(32 * count, 1), group_size=(32, 1)
        )
        out = np.zeros_like(w)
        per_thread = 8 if bits in (3, 5) else 4 if bits == 6 else 8 // bits
        lib.function(f"dequantize_float32_{group}_{bits}")(
            packed, scales, biases, out, threads=(w.size // per_thread, 1), group_size=(32, 1)
        )
        steps = np.abs(scales)[:, None]
        # The edge that is kept exact moves the others by up to a step.
        assert (np.abs(out - w) <= 1.01 * steps).all()
        codes = np.unpackbits(packed, bitorder="little").reshape(count, group, bits) @ (1 << np.arange(bits))
        close(out, codes * exact(scales)[:, None] + exact(biases)[:, None], "float32", 2, floor=1e-6)


def matrix(kernel: Any, arrays: Any, sizes: Any, threadgroups: tuple[int, ...], group_size: tuple[int, ...]) -> None:
    """A product of arrays that have no batch."""
    batches = (*NO_BATCH, *NO_BATCH, ZERO, ZERO)
    kernel(*arrays, *map(np.int32, sizes), *batches, threadgroups=threadgroups, group_size=group_size)


@pytest.mark.feature("corpus", "MLX: quantized matrix times vector (affine)")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("form", swept(FORMS, ((64, 4),)))
def test_qmv(form: tuple[int, int], name: str) -> None:
    group, bits = form
    if name != "float32" and form != (64, 4):
        pytest.xfail("one type is enough for the other widths; quantized.metal has no more")
    kernel = library("mlx", "quantized").function(f"qmv_{name}_{group}_{bits}")
    for rows, size, vectors in ((32, 512, 1), (19, 384, 3)):
        rng = generator(form, name, rows)
        packed, scales, biases, weights = quantized(rng, rows, size, group, bits, name)
        x = numbers(rng, (vectors, size), name)
        out = np.zeros((vectors, rows), x.dtype)
        arrays, sizes = (packed, scales, biases, x, out), (size, rows)
        matrix(kernel, arrays, sizes, (vectors, -(-rows // 8), 1), (32, 2, 1))
        check(out, x, weights.T, name)


@pytest.mark.feature("corpus", "MLX: quantized vector times matrix (affine)")
@pytest.mark.parametrize("name", swept(FLOATS, ("bfloat16",)))
def test_qvm(name: str) -> None:
    kernel = library("mlx", "quantized").function(f"qvm_{name}_64_4")
    for rows, size, vectors in ((64, 128, 1), (51, 192, 2)):
        rng = generator("qvm", name, rows)
        packed, scales, biases, weights = quantized(rng, rows, size, 64, 4, name)
        x = numbers(rng, (vectors, rows), name)
        out = np.zeros((vectors, size), x.dtype)
        arrays, sizes = (packed, scales, biases, x, out), (rows, size)
        matrix(kernel, arrays, sizes, (vectors, -(-size // 64), 1), (32, 2, 1))
        check(out, x, weights, name)


@pytest.mark.feature("corpus", "MLX: quantized matrix multiply (affine)")
@pytest.mark.parametrize("name", swept(FLOATS, ("float32",)))
@pytest.mark.parametrize("form", swept(("t", "n"), ("t",)))
def test_qmm(form: str, name: str) -> None:
    kernel = library("mlx", "quantized").function(f"qmm_{form}_{name}_64_4")
    for m, n, k in ((32, 64, 128), (21, 77, 64)):
        if form == "n":
            n = 64 * (-(-n // 64))  # packed along n, in whole groups
        rng = generator(form, name, m)
        shape = (n, k) if form == "t" else (k, n)
        packed, scales, biases, weights = quantized(rng, *shape, 64, 4, name)
        x = numbers(rng, (m, k), name)
        out = np.zeros((m, n), x.dtype)
        arrays, sizes = (packed, scales, biases, x, out), (k, n, m)
        matrix(kernel, arrays, sizes, (-(-n // 32), -(-m // 32), 1), (32, 2, 2))
        check(out, x, weights.T if form == "t" else weights, name)


@pytest.mark.feature("corpus", "MLX: fp4 quantization")
@pytest.mark.parametrize("count", (8, 5))
def test_mxfp4_round_trip(count: int) -> None:
    """Groups of 32 four-bit floats share a power of two."""
    lib = library("mlx", "fp_quantized")
    w = numbers(generator("mxfp4", count), (count, 32), "float32")
    packed, scales = np.zeros(count * 16, np.uint8), np.zeros(count, np.uint8)
    lib.function("mxfp4_quantize_float32")(w, packed, scales, None, threads=(32 * count, 1), group_size=(32, 1))
    out = np.zeros_like(w)
    lib.function("mxfp4_dequantize_float32")(packed, scales, None, out, threads=(w.size // 2, 1), group_size=(32, 1))
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(count, 32)
    np.testing.assert_array_equal(out, _fp4(codes) * 2.0 ** (scales.astype(int)[:, None] - 127))
    # The coarsest step of the format is 2 of at most 6.
    assert (np.abs(out - w) <= np.abs(w).max(-1, keepdims=True) / 2).all()


def _fp4(codes: Array) -> Array:
    """Values of four-bit floats: a sign, two bits of exponent, one of fraction."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return np.where(codes & 8, -1, 1) * table[codes & 7]
