"""Matrices that factorisations are tried on: LAPACK's kinds, made here from a seed.

`make(kind, rows, columns, batch, seed)` gives float64 values that float32 holds exactly, so that every side of a
comparison sees the same matrix. `KINDS` are of any shape, `SYMMETRIC` and `POSITIVE_DEFINITE` are square.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Maker = Callable[[np.random.Generator, int, int, int], Array]

NEAR_SINGULAR = 3e6  # condition numbers
NEAR_SINGULAR_POSITIVE = 1e6
GRADING = 1e-10
LARGE_NORM, SMALL_ENTRY = 1e37, 1e-36  # squares overflow and underflow
HUGE_NORM_OF_LAPACK, TINY_NORM_OF_LAPACK = 4e31, 2.5e-32  # what LAPACK's own tests scale to: inverses can be had
DIFFERENT = 16  # orthogonal factors that are drawn for a large batch; pairs of them are combined


def make(kind: str, rows: int, columns: int, batch: tuple[int, ...] = (), seed: int = 0) -> Array:
    """A batch of matrices of a kind, float64 with values of float32.

    >>> make("hilbert", 2, 2).round(3)
    array([[1.   , 0.5  ],
           [0.5  , 0.333]])
    """
    number = math.prod(batch)
    random = np.random.default_rng([seed, rows, columns, number, zlib.crc32(kind.encode())])
    if kind in _SQUARE:
        if rows != columns:
            raise ValueError(f"{kind}: a square matrix, not {rows} x {columns}")
        values = _mirrored(_SQUARE[kind](random, number, rows, rows))
    else:
        values = _MAKERS[kind](random, number, rows, columns)
    with np.errstate(under="ignore"):
        rounded = np.broadcast_to(values, (number, rows, columns)).astype(np.float32)
    return rounded.astype(np.float64).reshape(*batch, rows, columns)


# --- any shape -------------------------------------------------------------------------------------------------------
def _random(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return random.standard_normal((number, rows, columns))


def _grades(count: int, smallest: float = GRADING) -> Array:
    return np.geomspace(1.0, smallest, count) if count > 1 else np.ones(count)


def _graded_rows(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return _grades(rows)[:, None] * _random(random, number, rows, columns)


def _graded_columns(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return _random(random, number, rows, columns) * _grades(columns)


def _graded(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """The small rows first: the order that algorithms like least."""
    return _grades(rows)[::-1, None] * _random(random, number, rows, columns) * _grades(columns)[::-1]


def _orthonormal(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """Matrices with orthonormal columns (rows >= columns); a large batch repeats them."""
    different = np.linalg.qr(random.standard_normal((min(number, DIFFERENT), rows, columns)))[0]
    if number <= DIFFERENT:
        return different
    return different[random.integers(0, DIFFERENT, number)]


def _with_values(random: np.random.Generator, number: int, rows: int, columns: int, values: Array) -> Array:
    """Matrices with these singular values."""
    few = min(rows, columns)
    left, right = _orthonormal(random, number, rows, few), _orthonormal(random, number, columns, few)
    signs = random.choice([-1.0, 1.0], (number, 1, few))
    product: Array = (left * (values * signs)) @ right.swapaxes(-1, -2)
    return product


def _clusters(random: np.random.Generator, count: int) -> Array:
    """Values in three clusters, a few units of the last place apart."""
    return np.asarray(random.choice([1.0, 0.5, 1e-3], count) * (1 + 2.0**-22 * random.integers(0, 8, count)))


def _clustered(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return _with_values(random, number, rows, columns, _clusters(random, min(rows, columns)))


def _rank_deficient(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """Products of small whole numbers, so that the rank is exact: half of what it could be."""
    rank = min(rows, columns) // 2
    left, right = random.integers(-3, 4, (number, rows, rank)), random.integers(-3, 4, (number, rank, columns))
    return np.asarray(left.astype(np.float64) @ right.astype(np.float64))


def _equal_columns(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """Two columns, again and again: what an elimination leaves of one is rounding, and less each time."""
    return np.tile(_random(random, number, rows, 2), -(-columns // 2))[..., :columns]


def _equal_rows(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """One row, again and again."""
    return np.repeat(_random(random, number, 1, columns), rows, -2)


def _zero_columns(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """The first column and the last third are zero, and the middle row."""
    values = _random(random, number, rows, columns)
    values[..., :1] = 0
    values[..., columns - columns // 3 :] = 0
    if rows > 2:
        values[..., rows // 2, :] = 0
    return values


def _near_singular(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    values = _grades(min(rows, columns), 1 / NEAR_SINGULAR)
    return _with_values(random, number, rows, columns, values)


def _one_small(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """All singular values are 1 but the last."""
    values = np.ones(min(rows, columns))
    values[1:][-1:] = 1 / NEAR_SINGULAR
    return _with_values(random, number, rows, columns, values)


def _one_large(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """All singular values are small but the first."""
    values = np.full(min(rows, columns), 1 / NEAR_SINGULAR)
    values[:1] = 1
    return _with_values(random, number, rows, columns, values)


def _triangular(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """With a diagonal that keeps the condition low: that of a random triangle grows as 2^n."""
    above = np.triu(_random(random, number, rows, columns), 1) / math.sqrt(max(rows, columns, 1))
    diagonal = random.choice([-2.0, -1.5, 1.0], (number, 1, columns)) * np.eye(rows, columns)
    return np.asarray(above + diagonal)


def _lower_triangular(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return np.swapaxes(_triangular(random, number, columns, rows), -1, -2)


def _diagonal(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return _random(random, number, rows, columns) * np.eye(rows, columns)


def _zero(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return np.zeros((number, rows, columns))


def _identity(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return np.eye(rows, columns)


def _hilbert(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    return np.asarray(1 / (np.arange(1, rows + 1)[:, None] + np.arange(columns)))


def _kahan(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    """Kahan's upper triangular matrix, whose small singular value column pivoting does not see."""
    sine, cosine = math.sin(1.2), math.cos(1.2)
    shape = np.triu(-cosine * np.ones((rows, columns)), 1) + np.eye(rows, columns)
    return np.asarray(sine ** np.arange(rows)[:, None] * shape)


def _vandermonde(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    points = np.sort(random.uniform(-1, 1, (number, rows, 1)), axis=-2)
    return np.asarray(points ** np.arange(columns))


def _orthogonal(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
    if rows < columns:
        return np.swapaxes(_orthonormal(random, number, columns, rows), -1, -2)
    return _orthonormal(random, number, rows, columns)


def _scaled(maker: Maker, norm: float = 0.0, entry: float = 0.0) -> Maker:
    """The matrices times a power of two that brings their largest norm, or their largest entry, to about this."""

    def scaled(random: np.random.Generator, number: int, rows: int, columns: int) -> Array:
        values = maker(random, number, rows, columns)
        size = np.abs(values)
        if norm:
            largest = max(size.sum(-1).max(initial=0), size.sum(-2).max(initial=0))
        else:
            largest = size.max(initial=0)
        if largest == 0:
            return values
        return np.ldexp(values, math.floor(math.log2((norm or entry) / largest)))

    return scaled


_MAKERS: dict[str, Maker] = {
    "random": _random,
    "graded_rows": _graded_rows,
    "graded_columns": _graded_columns,
    "graded": _graded,
    "clustered": _clustered,
    "rank_deficient": _rank_deficient,
    "zero_columns": _zero_columns,
    "equal_columns": _equal_columns,
    "equal_rows": _equal_rows,
    "near_singular": _near_singular,
    "one_small": _one_small,
    "one_large": _one_large,
    "near_overflow": _scaled(_random, norm=LARGE_NORM),
    "near_underflow": _scaled(_random, entry=SMALL_ENTRY),
    "large": _scaled(_random, norm=HUGE_NORM_OF_LAPACK),
    "small": _scaled(_random, norm=TINY_NORM_OF_LAPACK),
    "triangular": _triangular,
    "lower_triangular": _lower_triangular,
    "diagonal": _diagonal,
    "zero": _zero,
    "identity": _identity,
    "hilbert": _hilbert,
    "kahan": _kahan,
    "vandermonde": _vandermonde,
    "orthogonal": _orthogonal,
}


# --- symmetric -------------------------------------------------------------------------------------------------------
def _mirrored(values: Array) -> Array:
    """The lower triangle on both sides, so that rounding leaves no difference."""
    lower = np.tril(values)
    return np.asarray(lower + np.swapaxes(np.tril(values, -1), -1, -2))


def _with_eigenvalues(random: np.random.Generator, number: int, n: int, values: Array, signed: bool) -> Array:
    vectors = _orthonormal(random, number, n, n)
    signs = random.choice([-1.0, 1.0], (number, 1, n)) if signed else np.ones((number, 1, n))
    order = random.permutation(n)
    product: Array = (vectors * (values[order] * signs)) @ vectors.swapaxes(-1, -2)
    return product


def _symmetric(values: Callable[[np.random.Generator, int], Array], signed: bool = True) -> Maker:
    return lambda random, number, n, _: _with_eigenvalues(random, number, n, values(random, n), signed)


def _symmetric_rank_deficient(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    half = random.integers(-3, 4, (number, n, n // 2)).astype(np.float64)
    return np.asarray((half * random.choice([-1.0, 1.0], n // 2)) @ half.swapaxes(-1, -2))


def _symmetric_graded(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    return _grades(n)[:, None] * _random(random, number, n, n) * _grades(n)


def _wilkinson(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    """Tridiagonal, with pairs of eigenvalues that agree to many digits."""
    return np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)


def _lehmer(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    index = np.arange(1.0, n + 1)
    return np.asarray(np.minimum(index, index[:, None]) / np.maximum(index, index[:, None]))


def _positive_diagonal(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    return random.uniform(0.5, 2, (number, 1, n)) * np.eye(n)


def _positive_graded(random: np.random.Generator, number: int, n: int, _: int) -> Array:
    return _grades(n)[:, None] * _positive_random(random, number, n, n) * _grades(n)


_positive_random = _symmetric(lambda random, n: random.uniform(0.1, 2, n), signed=False)
_SQUARE: dict[str, Maker] = {
    "symmetric_random": _random,
    "symmetric_graded": _symmetric_graded,
    "symmetric_clustered": _symmetric(_clusters),
    "symmetric_rank_deficient": _symmetric_rank_deficient,
    "symmetric_near_singular": _symmetric(lambda random, n: _grades(n, 1 / NEAR_SINGULAR)),
    "symmetric_near_overflow": _scaled(_random, norm=LARGE_NORM),
    "symmetric_near_underflow": _scaled(_random, entry=SMALL_ENTRY),
    "symmetric_diagonal": _diagonal,
    "wilkinson": _wilkinson,
    "positive_random": _positive_random,
    "positive_graded": _positive_graded,
    "positive_clustered": _symmetric(_clusters, signed=False),
    "positive_near_singular": _symmetric(lambda random, n: _grades(n, 1 / NEAR_SINGULAR_POSITIVE), signed=False),
    "positive_near_overflow": _scaled(_positive_random, norm=LARGE_NORM),
    "positive_near_underflow": _scaled(_positive_random, entry=SMALL_ENTRY),
    "positive_diagonal": _positive_diagonal,
    "lehmer": _lehmer,
}

KINDS = tuple(_MAKERS)
POSITIVE_DEFINITE = (*(kind for kind in _SQUARE if kind.startswith("positive_")), "lehmer", "identity")
SYMMETRIC = (*_SQUARE, "zero", "identity", "hilbert")
EXACTLY_SINGULAR = ("zero", "rank_deficient", "zero_columns", "equal_columns", "equal_rows")
