"""Exact arithmetic on floats with Python's integers, and inputs that are hard to sum. The seed is stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SEED = 20240229
UNIT = 149  # every finite float is a multiple of 2^-149


def as_integers(x: Array) -> list[int]:
    """Each float times 2^149, exactly."""
    fractions, exponents = np.frexp(x.astype(np.float64).reshape(-1))
    whole = np.ldexp(fractions, 53).astype(np.int64).tolist()
    shifts = (exponents - 53 + UNIT).tolist()
    return [w << s if s >= 0 else w >> -s for w, s in zip(whole, shifts, strict=True)]


def exact_dots(x: Array, y: Array) -> list[int]:
    """The dot product of each row, times 2^298."""
    width = x.shape[-1]
    products = [a * b for a, b in zip(as_integers(x), as_integers(y), strict=True)]
    return [sum(products[i : i + width]) for i in range(0, len(products), width)]


def nearest_float(number: int, unit: int) -> float:
    """number * 2^-unit rounded to the nearest float32, ties to even; infinity where it is too large."""
    magnitude = abs(number)
    shift = max(magnitude.bit_length() - 24, unit - 149)
    if shift > 0:
        kept, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        kept += rest > half or (rest == half and kept & 1)
    else:
        kept, shift = magnitude, 0
    if kept.bit_length() + shift - unit > 128:
        return math.copysign(math.inf, number)
    return math.copysign(math.ldexp(kept, shift - unit), number)


def nearest_root(number: int, unit: int) -> float:
    """The float32 nearest to sqrt(number * 2^-unit), which is never half-way between two: `unit` is even."""
    extra = 128  # the root gets so many more bits, and a last one that says whether there are others
    wide = number << (2 * extra)
    root = math.isqrt(wide)
    return nearest_float(2 * root + (root * root != wide), unit // 2 + extra + 1)


def any_floats(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Finite floats with random bits: every exponent, subnormal numbers too."""
    bits = random.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    bits = np.where((bits >> 23) & 255 == 255, bits & np.uint32(0xBFFFFFFF), bits)
    return bits.astype(np.uint32).view(np.float32)


def cancelling(random: np.random.Generator, rows: int, width: int, spread: int) -> tuple[Array, Array]:
    """Rows in random order whose large products cancel to the last bits of a factor, or wholly: magnitudes are between
    2^-spread and 2^spread, so that the sum may be a tiny part of the terms."""
    pairs = (width - 1) // 2
    shape = (rows, pairs)
    size = np.ldexp(1.0, random.integers(-spread // 2, spread // 2 + 1, (2, *shape)))
    a = (random.uniform(1, 2, shape) * size[0]).astype(np.float32)
    b = (random.uniform(1, 2, shape) * size[1]).astype(np.float32)
    nudged = np.where(random.random(shape) < 0.7, b, np.nextafter(b, np.float32(np.inf), dtype=np.float32))
    odd = width - 2 * pairs
    tail = [random.standard_normal((rows, odd)).astype(np.float32) for _ in range(2)]
    x = np.concatenate([a, -a, tail[0]], axis=1)
    y = np.concatenate([b, nudged, tail[1]], axis=1)
    order = random.permuted(np.tile(np.arange(width), (rows, 1)), axis=1)
    return np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1)


def half_way(random: np.random.Generator, rows: int, width: int) -> tuple[Array, Array]:
    """Sums half-way between two floats, or off it by one smallest product."""
    x, y = np.zeros((rows, width), np.float32), np.ones((rows, width), np.float32)
    x[:, 0] = any_floats(random, (rows,))
    x[:, 0] = np.where(np.abs(x[:, 0]) > 1e37, 1.5, x[:, 0])
    x[:, 1] = np.spacing(np.abs(x[:, 0])) * np.float32(0.5) * random.choice([-1, 1], rows)
    x[:, 2] = np.float32(2.0**-149) * random.choice([-1, 0, 1], rows)
    y[:, 2] = np.float32(2.0**-149)
    small = np.abs(x[:, 1]) < 2.0**-149  # the half of a subnormal number's step takes a product
    x[small, 1], y[small, 1] = np.float32(2.0**-149), np.float32(0.5)
    return x, y


def hard_rows(rows: int = 10_000, width: int = 24) -> tuple[Array, Array]:
    """Adversarial dot products: conditions up to 1e30 and beyond, ties, subnormal numbers, overflow."""
    random = np.random.default_rng(SEED)
    part = rows // 8
    made = [cancelling(random, part, width, spread) for spread in (0, 30, 60, 100, 120)]
    made.append(half_way(random, part, width))
    made.append((any_floats(random, (part, width)), any_floats(random, (part, width))))
    left = rows - 7 * part
    sizes = random.integers(-90, -60, (2, left, width))
    made.append(tuple(np.ldexp(random.standard_normal(s.shape), s).astype(np.float32) for s in sizes))
    return np.concatenate([m[0] for m in made]), np.concatenate([m[1] for m in made])
