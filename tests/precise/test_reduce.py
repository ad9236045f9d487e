"""Sums, dot products, norms and products of matrices in float-float: bounds, gradients, routes, errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore import precise
from metalcore.errors import ArgumentError
from metalcore.health import routes
from metalcore.health.verify import verify
from metalcore.ops import find, nouns
from tests.ops.contract import compiled_agrees, floats, gpu_launches_agree, opcheck
from tests.precise.exact import SEED, UNIT, any_floats, as_integers, cancelling, exact_dots, nearest_float

NOUNS = ("precise_dot", "precise_matmul", "precise_norm", "precise_sum")


def pair_error(pair: Any, truth: int, unit: int) -> Fraction:
    high, low = (Fraction(float(part)) for part in pair)
    return abs((high + low) * (1 << unit) - truth)


@pytest.mark.parametrize("width", [1, 2, 33, 1000, 40_000])
def test_a_dot_product_is_as_if_with_twice_the_digits(width: int) -> None:
    x, y = cancelling(np.random.default_rng(SEED + width), 3, width, 24)
    high, low = precise.dot(x, y, pair=True)
    sizes = exact_dots(np.abs(x), np.abs(y))
    for i, truth in enumerate(exact_dots(x, y)):
        assert pair_error((high[i], low[i]), truth, 2 * UNIT) <= width * Fraction(sizes[i], 1 << 46)
    assert (high + low == high).all()
    assert np.array_equal(precise.dot(x, y), high)


def test_sums_and_norms_as_pairs() -> None:
    random = np.random.default_rng(SEED)
    x = (random.standard_normal((4, 999)) * np.exp(random.uniform(-9, 9, (4, 999)))).astype(np.float32)
    high, low = precise.sum(x, 1, pair=True)
    for i, row in enumerate(x):
        terms = as_integers(row)
        assert pair_error((high[i], low[i]), sum(terms), UNIT) <= 999 * Fraction(sum(map(abs, terms)), 1 << 46)
    for scale in (1.0, 2.0**100, 2.0**-120):  # no square overflows or is lost
        scaled = (x * np.float32(scale)).astype(np.float32)
        high, low = precise.norm(scaled, 1, pair=True)
        for i, truth in enumerate(exact_dots(scaled, scaled)):
            value = (Fraction(float(high[i])) + Fraction(float(low[i]))) ** 2 * (1 << 2 * UNIT)
            assert abs(value - truth) <= Fraction(truth, 1 << 40)
            assert abs(float(high[i]) - np.sqrt(truth / (1 << 2 * UNIT))) <= 2**-24 * float(high[i])


def test_products_of_matrices_as_pairs() -> None:
    x, y = cancelling(np.random.default_rng(SEED), 20, 65, 24)
    a, b = x[:3], np.ascontiguousarray(y.T)
    for columns in (5, 20):
        high, low = precise.matmul(a, b[:, :columns], pair=True)
        for i in range(3):
            rows = np.tile(a[i], (columns, 1))
            truths, sizes = exact_dots(rows, y[:columns]), exact_dots(np.abs(rows), np.abs(y[:columns]))
            for j in range(columns):
                error = pair_error((high[i, j], low[i, j]), truths[j], 2 * UNIT)
                assert error <= 65 * Fraction(sizes[j], 1 << 46)


def test_range() -> None:
    """Infinities and NaN as in float32 arithmetic; subnormal numbers are kept on a CPU."""
    big, inf, nan = 3e38, np.inf, np.nan
    x = np.array([[inf, 1], [inf, -inf], [nan, 1], [big, big], [-big, -big], [1e-45, 1e-45]], np.float32)
    for precision in ("float32", "float-float"):
        found = precise.sum(x, 1, precision=precision)
        assert np.array_equal(found, np.array([inf, nan, nan, inf, -inf, 3e-45], np.float32), equal_nan=True)
    high, low = precise.sum(x, 1, pair=True)
    assert low.tolist() == [0.0] * 6 and np.isnan(high).tolist() == [False, True, True, False, False, False]
    assert np.array_equal(precise.norm(x[:4], 1), np.array([inf, inf, nan, inf], np.float32), equal_nan=True)
    assert float(precise.norm(x[5])) == np.float32(1e-45) and float(precise.norm(np.zeros(3, np.float32))) == 0
    assert float(precise.dot(x[3], x[3])) == inf


def test_dimensions_and_empty_arrays() -> None:
    x = torch.randn(3, 4, 5)
    for dim in (None, 0, -2, (0, 2), (2, 1)):
        for keepdim in (False, True):
            torch.testing.assert_close(precise.sum(x, dim, keepdim), x.sum(dim=dim, keepdim=keepdim))
            expected = torch.linalg.vector_norm(x, dim=dim, keepdim=keepdim)
            torch.testing.assert_close(precise.norm(x, dim, keepdim), expected)
    assert precise.sum(torch.zeros(3, 0), 1).tolist() == [0, 0, 0] and precise.sum(torch.zeros(0, 3), 1).shape == (0,)
    assert precise.matmul(torch.zeros(2, 0), torch.zeros(0, 20)).tolist() == [[0.0] * 20] * 2
    assert precise.sum(torch.tensor(3.0)).item() == 3.0


@pytest.mark.parametrize("noun", [pytest.param(n, marks=[pytest.mark.sweep] * (n != "precise_dot")) for n in NOUNS])
def test_error_rule(noun: str) -> None:
    outcomes = [verify(find(noun), "float32", index) for index in range(6)]
    assert [o.explain() for o in outcomes if not o.passed] == []


def test_gradients() -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(precise.dot, (x, y))
    zero = torch.zeros(4, requires_grad=True)
    precise.norm(zero).backward()
    assert zero.grad is not None and torch.equal(zero.grad, torch.zeros(4))


@pytest.mark.sweep
def test_more_gradients() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    assert check(lambda x: precise.sum(x, 0), (x,))
    assert check(lambda x: precise.norm(x, 1), (x,))
    batch = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert check(precise.matmul, (x, batch)) and check(precise.matmul, (batch, x))
    single = torch.randn(4, requires_grad=True)
    (found,) = torch.autograd.grad(precise.dot(single, single.detach(), precision="exact"), single)
    assert torch.equal(found, single.detach())


def test_torch_knows_the_ops() -> None:
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert set(NOUNS) <= set(nouns("precise"))
    assert opcheck("precise_dot", x, y, "float-float", False)
    assert compiled_agrees(lambda x, y: precise.dot(x, y), x, y)


@pytest.mark.sweep
def test_torch_knows_the_other_ops() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert opcheck("precise_sum", x, [1], False, "float-float", False)
    assert opcheck("precise_norm", x, [1], False, "float-float", True)
    assert opcheck("precise_matmul", x, torch.randn(4, 15, requires_grad=True), "float-float", False)


@pytest.mark.parametrize("precision", ["float-float", pytest.param("exact", marks=pytest.mark.sweep)])
def test_texts_of_other_frameworks(precision: str) -> None:
    import mlx.core as mx

    torch.manual_seed(0)
    x, y = torch.randn(2, 70), torch.randn(2, 70)
    b = torch.randn(70, 33)
    dot, matmul = find("precise_dot").forward.plan, find("precise_matmul").forward.plan
    expected = precise.dot(x, y, precision=precision), precise.matmul(x, b, precision=precision)
    found = dot(routes.text_mps(), x, y, precision, False)[0], matmul(routes.text_mps(), x, b, precision, False)[0]
    assert all(torch.equal(f, e) for f, e in zip(found, expected, strict=True))
    given = [mx.array(t.numpy()) for t in (x, y, b)]
    run = routes.text_mlx()
    lazy = dot(run, *given[:2], precision, False)[0], matmul(run, given[0], given[2], precision, False)[0]
    eager = metalcore.mlx.precise.dot(*given[:2], precision=precision)
    for f, e in zip((*lazy, eager), (*expected, expected[0]), strict=True):
        assert np.array_equal(np.asarray(f), e.numpy())


@pytest.mark.sweep
def test_launches_of_a_gpu() -> None:
    assert gpu_launches_agree("precise_dot", *floats((3, 9000), (3, 9000)))
    assert gpu_launches_agree("precise_matmul", *floats((40, 40), (40, 40)))


@pytest.mark.sweep
def test_the_sanitizer_finds_nothing() -> None:
    x, b = torch.randn(2, 70, requires_grad=True), torch.randn(70, 33)
    with metalcore.mode("sanitize") as report:
        for precision in ("float-float", "exact"):
            (precise.dot(x, x, precision=precision, pair=True)[0].sum() + precise.norm(x, 1).sum()).backward()
            precise.matmul(x, b, precision=precision)
            precise.sum(torch.randn(1, 20_000), 1, precision=precision)
    assert list(report.findings) == []


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: precise.sum(x, precision="double"), "precision must be"),
        (lambda x: precise.sum(x, 5), "dim must be"),
        (lambda x: precise.sum(x, (0, 0)), "different dimensions"),
        (lambda x: precise.sum(x.long()), "must be float32"),
        (lambda x: precise.sum(x.double(), precision="exact"), "where precision='exact'"),
        (lambda x: precise.sum(x, precision="float32", pair=True), "where a pair is asked for"),
        (lambda x: precise.norm(x, precision="exact", pair=True), "where a pair is asked for"),
        (lambda x: precise.dot(x, x[:1]), "of the shape of x"),
        (lambda x: precise.dot(x, x.half()), "float32 as x is"),
        (lambda x: precise.matmul(x, x), "a matrix of 3 rows"),
        (lambda x: precise.matmul(x[0], x), "a matrix or a batch"),
        (lambda x: precise.matmul(x.expand(2, 2, 3), torch.zeros(3, 3, 2)), "as a is"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call(torch.zeros(2, 3))


def test_exact_and_float_float_agree_where_both_must() -> None:
    x = any_floats(np.random.default_rng(SEED), (50, 7))
    x = np.where(np.abs(x) > 1e30, 1, x).astype(np.float32)
    expected = [nearest_float(sum(as_integers(row)), UNIT) for row in x]
    assert np.array_equal(precise.sum(x, 1, precision="exact"), np.array(expected, np.float32))
    close = np.abs(precise.sum(x, 1) - np.array(expected)) <= 2**-22 * np.abs(x).max(1)
    assert close.all()
