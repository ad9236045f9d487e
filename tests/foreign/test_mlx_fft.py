"""MLX's Fourier and Hadamard transforms against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.foreign.arrays import FLOATS, Array, close, exact, generator, numbers, swept
from tests.foreign.corpus import library

RADICES = (13, 11, 8, 7, 6, 5, 4, 3, 2)


def factors(n: int) -> list[int]:
    """How often each radix divides out of n, largest first; small powers of two use 4 and 2 alone."""
    steps = []
    small = n & (n - 1) == 0 and n < 512
    for radix in RADICES:
        count = 0
        while n % radix == 0 and n > 1 and not (small and radix > 4):
            n, count = n // radix, count + 1
        steps.append(count)
    assert n == 1
    return steps


def constants(n: int, inverse: bool, each: int, rader: int = 1) -> dict[int | str, object]:
    """Function constants of a transform: its direction, the elements of a thread, and the radix steps."""
    rest = n // rader
    values: dict[int | str, object] = {0: inverse, 1: n & (n - 1) == 0, 2: each, 3: rest, 22: False}
    values |= {4 + i: count for i, count in enumerate(factors(rest) if rest > 1 else [0] * 9)}
    values |= {13 + i: count for i, count in enumerate(factors(rader - 1) if rader > 1 else [0] * 9)}
    return values


def each_thread(n: int, rader: int = 1) -> int:
    """Elements of a thread: the only radix, or the second smallest."""
    used = {r for r, c in zip(RADICES, factors(n // rader) if n > rader else [0] * 9, strict=True) if c}
    used |= {r for r, c in zip(RADICES, factors(rader - 1) if rader > 1 else [0] * 9, strict=True) if c}
    return sorted(used)[min(1, len(used) - 1)]


def launch(n: int, each: int, batch: int) -> dict[str, Any]:
    """Several short transforms share a threadgroup."""
    together = max(256 // n, 1)
    group = (1, together, -(-n // each))
    return {"threads": (-(-batch // together), together, group[2]), "group_size": group}


def pairs(x: Array) -> Array:
    """Complex numbers as the pairs of floats that the kernel takes."""
    return x.view(np.float32).reshape(*x.shape, 2)


@pytest.mark.feature("corpus", "MLX: fft")
@pytest.mark.parametrize(
    "case",
    swept([(n, i) for n in (256, 60, 35, 64, 125, 77, 169, 81) for i in (False, True)], [(256, False), (60, True)]),
)
def test_fft(case: tuple[int, bool]) -> None:
    n, inverse = case
    batch, each = 5, each_thread(n)
    x = numbers(generator(n, inverse), (batch, n), "complex64")
    out = np.zeros_like(x)
    library("mlx", "fft").function("fft_256_float32", constants(n, inverse, each))(
        pairs(x), pairs(out), np.int32(n), np.int32(batch), **launch(n, each, batch)
    )
    want = np.fft.ifft(exact(x)) if inverse else np.fft.fft(exact(x))
    close(out, want, "complex64", 8, floor=2e-6 * float(np.abs(want).max()))


@pytest.mark.feature("corpus", "MLX: fft")
@pytest.mark.sweep
@pytest.mark.parametrize("n", (64, 45))
def test_real_fft_and_back(n: int) -> None:
    """Two real rows go through one complex transform."""
    batch, each = 4, each_thread(n)
    x = numbers(generator("real", n), (batch, n), "float32")
    out = np.zeros((batch, n // 2 + 1), np.complex64)
    library("mlx", "fft").function("fft_256_r2c_float32", constants(n, False, each))(
        x, pairs(out), np.int32(n), np.int32(batch), **launch(n, each, batch // 2)
    )
    want = np.fft.rfft(exact(x))
    close(out, want, "complex64", 8, floor=2e-6 * float(np.abs(want).max()))
    back = np.zeros_like(x)
    library("mlx", "fft").function("fft_256_c2r_float32", constants(n, True, each))(
        pairs(out), back, np.int32(n), np.int32(batch), **launch(n, each, batch // 2)
    )
    close(back, exact(x), "float32", 8, floor=1e-5)


@pytest.mark.feature("corpus", "MLX: fft")
@pytest.mark.sweep
@pytest.mark.parametrize("n", (34, 17, 102))
def test_rader_fft(n: int) -> None:
    """A prime factor above 13, whose predecessor is smooth."""
    # A full threadgroup: where 9 threads of 4 elements serve 34, MLX's kernel touches two elements behind the last row.
    batch, prime = 256 // n, 17
    each = each_thread(n, prime)
    root = 3  # generates the numbers below 17
    powers = np.array([pow(root, i, prime) for i in range(prime - 1)], np.int16)
    inverse = np.array([pow(root, -i, prime) for i in range(prime - 1)], np.int16)
    kernel_q = np.fft.fft(np.exp(-2j * np.pi * inverse / prime)).astype(np.complex64)
    x = numbers(generator("rader", n), (batch, n), "complex64")
    out = np.zeros_like(x)
    library("mlx", "fft").function("rader_fft_256_float32", constants(n, False, each, prime))(
        pairs(x),
        pairs(out),
        pairs(kernel_q),
        powers,
        inverse,
        np.int32(n),
        np.int32(batch),
        np.int32(prime),
        **launch(n, each, batch),
    )
    want = np.fft.fft(exact(x))
    close(out, want, "complex64", 8, floor=4e-6 * float(np.abs(want).max()))


@pytest.mark.sweep
@pytest.mark.feature("corpus", "MLX: fft")
@pytest.mark.parametrize("n", swept((94, 47), (94,)))
def test_bluestein_fft(n: int) -> None:
    """Any length, as a convolution of the next power of two."""
    batch, size = 3, 256
    turns = np.arange(-n + 1, n) ** 2 % (2 * n)
    chirp = np.exp(-1j * np.pi * turns / n)
    padded = np.zeros(size, np.complex128)
    padded[: 2 * n - 1] = 1 / chirp
    spectrum, weights = np.fft.fft(padded).astype(np.complex64), chirp[n - 1 :].astype(np.complex64)
    x = numbers(generator("bluestein", n), (batch, n), "complex64")
    out = np.zeros_like(x)
    library("mlx", "fft").function("bluestein_fft_256_float32", constants(size, False, 4))(
        pairs(x),
        pairs(out),
        pairs(spectrum),
        pairs(weights),
        *map(np.int32, (n, size, batch)),
        **launch(size, 4, batch),
    )
    want = np.fft.fft(exact(x))
    close(out, want, "complex64", 16, floor=1e-5 * float(np.abs(want).max()))


@pytest.mark.feature("corpus", "MLX: fft")
@pytest.mark.sweep
@pytest.mark.parametrize("shape", ((64, 32), (128, 64)))
def test_four_step_fft(shape: tuple[int, int]) -> None:
    """A long transform as columns, twiddles, rows."""
    n1, n2 = shape
    x = numbers(generator("four", shape), (2, n1 * n2), "complex64")
    middle, out = np.zeros_like(x), np.zeros_like(x)
    lib = library("mlx", "fft")
    for step, n, source, target in ((0, n1, x, middle), (1, n2, middle, out)):
        together = max(256 // n, 4)
        each = 4
        lib.function(f"four_step_{step}_1024_float32", constants(n, False, each))(
            pairs(source),
            pairs(target),
            *map(np.int32, (n1, n2, 2 * n1 * n2 // n)),
            threads=(2 * n1 * n2 // n // together, together, n // each),
            group_size=(1, together, n // each),
        )
    want = np.fft.fft(exact(x))
    close(out, want, "complex64", 16, floor=4e-6 * float(np.abs(want).max()))


def hadamard(n: int) -> Array:
    matrix = np.ones((1, 1))
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@pytest.mark.feature("corpus", "MLX: hadamard")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("n", swept((64, 1024), (64,)))
def test_hadamard(n: int, name: str) -> None:
    kernel = library("mlx", "hadamard").function(f"hadamard_n_{n}_{name}")
    for batch in (4, 3):
        x = numbers(generator("hadamard", n, name, batch), (batch, n), name)
        out = np.zeros_like(x)
        kernel(x, out, np.float32(n**-0.5), threads=(n // 16, batch, 1), group_size=(n // 16, 1, 1))
        want = exact(x) @ hadamard(n) * n**-0.5
        close(out, want, name, 2, floor=1e-6 if name == "float32" else 0.02 * (4 if name == "bfloat16" else 1))


@pytest.mark.sweep
@pytest.mark.feature("corpus", "MLX: hadamard")
@pytest.mark.parametrize("name", swept(FLOATS, ("float32",)))
def test_hadamard_of_twelve_times_a_power_of_two(name: str) -> None:
    """The second stage: columns of 12, whose matrix is orthogonal."""
    kernel = library("mlx", "hadamard").function(f"hadamard_m_{name}")
    for batch in (2, 3):
        x = numbers(generator("twelve", name, batch), (batch, 12, 64), name)
        out = np.zeros_like(x)
        kernel(x, out, np.float32(1), threads=(batch, 16, 1), group_size=(batch, 16, 1))
        matrix = paley()
        np.testing.assert_array_equal(matrix @ matrix.T, 12 * np.eye(12))
        want = np.einsum("ij,bjk->bik", matrix, exact(x))
        close(out, want, name, 2, floor=1e-5 if name == "float32" else 0.05 * (8 if name == "bfloat16" else 1))


def paley() -> Array:
    """The matrix that hadamard.metal builds from the squares modulo 11."""
    squares = {i * i % 11 for i in range(1, 11)}
    matrix = np.ones((12, 12))
    matrix[1:, 0] = -1
    for row in range(11):
        for column in range(11):
            matrix[row + 1, column + 1] = 1 if row == column or (column - row) % 11 in squares else -1
    return matrix
