"""What a review found once: each of these was wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from metalcore import precise
from metalcore.errors import ArgumentError
from tests.precise.exact import SEED, Array

MOST = np.finfo(np.float32).max


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def test_qr_of_columns_of_very_different_size() -> None:
    for small in (1e-20, 1e-24, 1e-35):
        A = np.random.default_rng(SEED).standard_normal((6, 3)) * [1, small, 1]
        Q, R = (x.astype(np.float64) for x in precise.qr(f32(A)))
        assert np.abs(Q.T @ Q - np.eye(3)).max() < 2e-7
        assert (np.abs(Q @ R - f32(A)).max(0) < 3e-7 * np.abs(A).max(0) + 2.0**-148).all()
    A = f32([[1, 0], [0, 3e-24], [0, 4e-24]])
    np.testing.assert_array_equal(precise.qr(A).R, f32([[1, 0], [0, -5e-24]]))


def test_qr_has_the_signs_of_torch() -> None:
    A = f32([[0, 1], [1, 0]])
    np.testing.assert_array_equal(precise.qr(A).R, torch.linalg.qr(torch.from_numpy(A)).R)


def test_cholesky_of_graded_matrices() -> None:
    found = precise.cholesky(f32([[2e22, 1], [1, 2e-22]]))
    expected = np.linalg.cholesky(f32([[2e22, 1], [1, 2e-22]]).astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=2.0**-24)
    for diagonal in ([1e38, 1e-38], [1e30, 1.2345678e-14], [1e-45, 1.0]):
        found = np.diag(precise.cholesky(np.diag(f32(diagonal))))
        np.testing.assert_allclose(found, np.sqrt(f32(diagonal).astype(np.float64)), rtol=2.0**-24)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_one_triangle(upper: bool) -> None:
    A = f32([[2e-20, 1e30], [1e-20, 2e-20]])
    found = precise.cholesky(A.T.copy() if upper else A, upper=upper)
    expected = np.linalg.cholesky(np.array([[2e-20, 1e-20], [1e-20, 2e-20]]))
    np.testing.assert_allclose(found.T if upper else found, expected, rtol=1e-6)


def test_gradient_of_products_of_halves() -> None:
    a, b = (torch.full((2, 2), 1e-3, dtype=torch.float16, requires_grad=True) for _ in range(2))
    (precise.matmul(a, b) * 1e5).sum().backward()
    expected = torch.full((2, 2), 200 * 1.0004, dtype=torch.float16)
    torch.testing.assert_close(a.grad, expected, rtol=2e-3, atol=0)
    torch.testing.assert_close(b.grad, expected, rtol=2e-3, atol=0)


def test_sums_that_are_too_large_are_infinite() -> None:
    x = np.zeros(32, np.float32)
    x[0], x[[8, 16, 24]] = MOST, 0.9 * 2.0**102
    for sign in (1, -1):
        high, low = precise.sum(f32(sign * x), pair=True)
        assert high == sign * np.inf and low == 0
    a = f32([[MOST, *[0.9 * 2.0**102] * 4]])
    for columns in (2, 16):
        high, low = precise.matmul(a, np.ones((5, columns), np.float32), pair=True)
        assert (high == np.inf).all() and (low == 0).all()


def test_corrections_larger_than_the_solution_are_refused() -> None:
    for n in (9, 13):
        A = f32(1 / (np.arange(n)[:, None] + np.arange(n) + 1))
        B = np.ones((n, 1), np.float32)
        truth = np.linalg.solve(A.astype(np.float64), B.astype(np.float64))
        plain, better = (np.abs(precise.solve(A, B, precision=p) - truth).max() for p in ("float32", "float-float"))
        assert better <= plain


def test_gradient_of_norms_at_the_ends_of_the_range() -> None:
    ends = (([1e-45, 0.0], [1.0, 0.0]), ([3e-40, 4e-40], [0.6, 0.8]), ([3e38, 1e37], [0.99944490, 0.033314830]))
    for x, slope in ends:
        given = torch.tensor(x, requires_grad=True)
        precise.norm(given).backward()
        torch.testing.assert_close(given.grad, torch.tensor(slope), rtol=3e-6 if x[0] < 1e-39 else 2.0**-23, atol=0)


def test_doubles_beyond_the_range_of_floats() -> None:
    for size in (1e-200, 1e200, 1e-310):
        np.testing.assert_allclose(precise.norm(np.array([3 * size, 4 * size])), 5 * size, rtol=1e-12)
    A = np.array([[3e200, 0], [4e200, 1e200]])
    np.testing.assert_allclose(np.abs(precise.qr(A).R), np.abs(np.linalg.qr(A * 1e-200)[1]) * 1e200, rtol=1e-14)


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="x is a NumPy array, y is a torch tensor"):
        precise.dot(np.ones(3, np.float32), torch.ones(3))
    for call in (precise.sum, precise.norm):
        with pytest.raises(ArgumentError, match=r"x must be a torch tensor, .*, not of type list"):
            call([1.0, 2.0])
        with pytest.raises(ArgumentError, match=r"dim must be an int, or several, not 1.0"):
            call(np.ones(3, np.float32), 1.0)
    assert precise.sum(np.ones((3, 2), np.float32), np.int64(0)).shape == (2,)
    assert precise.sum(torch.tensor(2.0), 0) == 2


def test_the_low_half_has_no_gradient() -> None:
    x = torch.ones(3, requires_grad=True)
    high, low = precise.sum(x, pair=True)
    assert high.requires_grad and not low.requires_grad
