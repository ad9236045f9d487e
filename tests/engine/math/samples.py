"""Arguments that reach everywhere: a stride over all bit patterns, and neighbourhoods where functions change course."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38]
    + [3.4028235e38, -3.4028235e38, 16777216.0, 33554434.0, 8388607.5, -8388607.5, 1.0000001, 0.99999994, 127.0]
    + [128.0, -126.0, -149.0, -150.0, 1e10, -1e10, 0.1, 1 / 3, -1.5, 2.5, -2.5],
    np.float32,
)
# Where a function switches method or leaves its domain, and multiples of pi/2.
_TURNS = [
    0.25,
    0.347,
    0.5,
    0.6,
    0.70710677,
    1.0,
    1.4142135,
    9.0,
    10.0,
    88.7,
    89.4,
    103.9,
    128.0,
    149.0,
    2.0**18,
    2.0**24,
    2.0**30,
]
# Large floats that lie closest to a multiple of pi/2.
_TURNS += [4.386558e33, 1.5708047e10, 3.9486335e06, 16367173.0 * 2.0**72]
_TURNS += [float(np.float32(k * np.pi / 2)) for k in (1, 2, 3, 4, 5, 10, 100, 12345, 100000)]


def stride(step: int = 4093) -> Floats:
    """Every *step*-th bit pattern: all exponents, both signs, denormals and NaNs."""
    return np.arange(step // 3, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def neighbourhoods(width: int = 2000) -> Floats:
    """Consecutive floats around each turning point, both signs, and the special values."""
    centres = np.array(_TURNS, np.float32).view(np.uint32).astype(np.int64)
    around = (centres[:, None] + np.arange(-width, width)).ravel()
    smallest = np.arange(0, width)
    positive = np.concatenate([around, smallest]).astype(np.uint32)
    return np.concatenate([positive, positive | np.uint32(0x80000000)]).view(np.float32)


def everywhere(step: int = 4093) -> Floats:
    return np.concatenate([SPECIAL, neighbourhoods(), stride(step)])


def random_bits(rng: np.random.Generator, size: int) -> Floats:
    return rng.integers(0, 2**32, size, dtype=np.uint64).astype(np.uint32).view(np.float32)


def pairs(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
    """All pairs of special values, random bit patterns, ordinary numbers, and quotients of all sizes."""
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    bits = random_bits(rng, size)
    with np.errstate(all="ignore"):
        scaled = (bits * 10.0 ** rng.uniform(-12, 1, size)).astype(np.float32)
    usual = rng.normal(size=(2, size)).astype(np.float32)
    return (
        np.concatenate([x, bits, random_bits(rng, size), usual[0]]),
        np.concatenate([y, scaled, random_bits(rng, size), usual[1]]),
    )


def powers(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
    """Bases of all sizes with exponents that keep the power within range, and integer exponents of any base."""
    wide = np.abs(random_bits(rng, size))
    wide = np.where(np.isfinite(wide) & (wide > 0), wide, np.float32(1.5))
    base = np.concatenate([wide, rng.uniform(0.5, 1.9, 2 * size), 1 + rng.uniform(1e-7, 1e-3, size)]).astype(np.float32)
    base = np.where(base == 1, np.float32(1.25), base)
    target = rng.uniform(-150, 129, base.size)
    exponent = (target / np.log2(base.astype(np.float64))).astype(np.float32)
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    signed = random_bits(rng, size)
    whole = rng.integers(-30, 30, size).astype(np.float32)
    return np.concatenate([x, base, signed]), np.concatenate([y, exponent, whole])
