"""Systems and factorisations that are right to float32's last digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore import precise
from metalcore.errors import ArgumentError
from metalcore.health import routes
from metalcore.ops import find
from tests.ops.contract import floats, gpu_launches_agree, opcheck
from tests.precise.exact import SEED, Array

U = 2.0**-24


def conditioned(rows: int, columns: int, condition: float) -> Array:
    random, rank = np.random.default_rng(SEED), min(rows, columns)
    left = np.linalg.qr(random.standard_normal((rows, rank)))[0]
    right = np.linalg.qr(random.standard_normal((columns, rank)))[0]
    values = np.logspace(0, -np.log10(condition), rank)
    return np.asarray((left * values) @ right.T, np.float32)


def errors(found: Any, truth: Array) -> float:
    """The largest error, in roundings of the largest element of its column."""
    scale = np.abs(truth).max(-2, keepdims=True)
    return float((np.abs(np.asarray(found, np.float64) - truth) / scale).max() / U)


@pytest.mark.parametrize("sides", [1, 20])
@pytest.mark.parametrize("condition", [1e3, 1e7])
def test_solutions_are_right_to_the_last_digit(sides: int, condition: float) -> None:
    A, B = conditioned(60, 60, condition), np.random.default_rng(SEED).standard_normal((60, sides)).astype(np.float32)
    truth = np.linalg.solve(A.astype(np.float64), B.astype(np.float64))
    assert errors(precise.solve(A, B), truth) <= 1.01
    high, low = precise.solve(A, B, pair=True)
    assert errors(high.astype(np.float64) + low, truth) <= condition * 1e-7  # 2^-46 times what the matrix makes of it
    assert errors(precise.solve(A, B, precision="float32"), truth) > 5  # what there is to gain


@pytest.mark.sweep
def test_exact_residuals() -> None:
    A, B = conditioned(40, 40, 1e6), np.ones(40, np.float32)
    truth = np.linalg.solve(A.astype(np.float64), B.astype(np.float64))[:, None]
    assert errors(precise.solve(A, B, precision="exact")[:, None], truth) <= 1.01


def test_a_correction_that_does_not_help_is_refused() -> None:
    """Far beyond what float32 can factorise, the solution is not worse than the plain one."""
    A = (1 / (np.arange(12)[:, None] + np.arange(12) + 1)).astype(np.float32)  # Hilbert's
    B = np.ones((12, 1), np.float32)
    plain, better = (precise.solve(A, B, precision=p) for p in ("float32", "float-float"))
    left = [np.abs(A.astype(np.float64) @ x.astype(np.float64) - B).max() for x in (plain, better)]
    assert np.isfinite(better).all() and left[1] <= 10 * left[0] + 1e-3


def test_batches_and_vectors() -> None:
    torch.manual_seed(0)
    A, B = torch.randn(3, 5, 5) + 5 * torch.eye(5), torch.randn(5)
    torch.testing.assert_close(precise.solve(A, B), torch.linalg.solve(A, B.expand(3, 5)[..., None])[..., 0])
    torch.testing.assert_close(precise.solve(A, torch.randn(3, 5, 0)), torch.zeros(3, 5, 0))
    torch.testing.assert_close(
        precise.solve(A[0].half(), B.half()), torch.linalg.solve(A[0].half().float(), B.half().float())
    )
    with pytest.raises(torch.linalg.LinAlgError, match=r"Batch element 1.*singular"):
        precise.solve(torch.stack([torch.eye(3), torch.zeros(3, 3)]), torch.ones(3))


@pytest.mark.sweep
def test_gradients() -> None:
    torch.manual_seed(0)
    A = torch.randn(3, 5, 5) + 5 * torch.eye(5)
    a, b = (t.double().requires_grad_() for t in (A, torch.randn(3, 5, 2)))
    assert torch.autograd.gradcheck(precise.solve, (a, b))
    assert torch.autograd.gradcheck(precise.qr, (a,))
    assert torch.autograd.gradcheck(lambda a: precise.cholesky(a @ a.mT), (a,))


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper: bool) -> None:
    half = conditioned(50, 50, 300).astype(np.float64)
    A = (half @ half.T * 1e20).astype(np.float32)
    A = np.tril(A) + np.tril(A, -1).T
    truth = np.linalg.cholesky(A.astype(np.float64))
    found = precise.cholesky(A, upper=upper)
    assert errors(found.T if upper else found, truth) <= 1.01
    assert not np.triu(found.T if upper else found, 1).any()
    with pytest.raises(np.linalg.LinAlgError, match="leading minor of order 2"):
        precise.cholesky(np.diag([1.0, -1.0]).astype(np.float32))
    batch = torch.eye(3).repeat(4, 1, 1)
    assert torch.equal(precise.cholesky(batch), batch) and precise.cholesky(torch.zeros(0, 3, 3)).shape == (0, 3, 3)


@pytest.mark.parametrize("rows, columns", [(60, 20), (20, 33), (1, 1), (0, 3), (3, 0)])
def test_qr(rows: int, columns: int) -> None:
    A = conditioned(rows, columns, 1e5) if rows * columns else np.zeros((rows, columns), np.float32)
    Q, R = precise.qr(A)
    truth = np.linalg.qr(A.astype(np.float64))
    assert Q.shape == truth.Q.shape and R.shape == truth.R.shape
    if rows * columns:
        assert errors(Q, truth.Q) <= 1.01 and errors(R, truth.R) <= 1.01
    whole = precise.qr(A, "complete")
    assert whole.Q.shape == (rows, rows) and whole.R.shape == (rows, columns)
    assert np.abs(whole.Q.astype(np.float64).T @ whole.Q - np.eye(rows)).max(initial=0) < 4 * U
    assert np.array_equal(precise.qr(A, "r").R, R)


def test_columns_of_zeros_and_large_numbers() -> None:
    A = np.zeros((6, 4), np.float32)
    A[:, 2] = 3e38
    Q, R = precise.qr(A)
    assert np.isfinite(Q).all() and np.isfinite(R[:, :2]).all() and np.abs(Q.T @ Q - np.eye(4)).max() < 4 * U


@pytest.mark.sweep
def test_torch_and_mlx_know_the_ops() -> None:
    import mlx.core as mx

    torch.manual_seed(0)
    A, B = torch.randn(4, 4) + 4 * torch.eye(4), torch.randn(4, 2)
    assert opcheck("precise_solve", A, B, "float-float", False)
    assert opcheck("precise_cholesky", A @ A.T, False) and opcheck("precise_qr", A, "reduced")
    assert type(precise.qr(A)) is type(torch.linalg.qr(A))
    expected = precise.solve(A, B)
    assert np.array_equal(np.asarray(metalcore.mlx.precise.solve(mx.array(A.numpy()), mx.array(B.numpy()))), expected)
    positive = (A @ A.T).contiguous()
    for run, made in ((routes.text_mps(), torch.clone), (routes.text_mlx(), lambda t: mx.array(t.numpy()))):
        solved = find("precise_solve").forward.plan(run, made(A), made(B), "float-float", False)[0]
        assert np.array_equal(np.asarray(solved), expected)
        factor = find("precise_cholesky").forward.plan(run, made(positive), True)[0]
        assert np.array_equal(np.asarray(factor), precise.cholesky(positive, upper=True))
        q = find("precise_qr").forward.plan(run, made(A), "reduced")[0]
        assert np.array_equal(np.asarray(q), precise.qr(A).Q)


@pytest.mark.sweep
def test_launches_of_a_gpu_and_the_sanitizer() -> None:
    A = torch.randn(2, 40, 40) + 40 * torch.eye(40)
    for noun, arguments in (("precise_qr", (A, "reduced")), ("precise_cholesky", (A @ A.mT, False))):
        plan = find(noun).forward.plan
        for one, other in zip(plan(_apple(), *arguments), find(noun)(*arguments), strict=False):
            assert torch.equal(one, other) or noun == "precise_cholesky"
    assert gpu_launches_agree("precise_dot", *floats((2, 40), (2, 40)))
    with metalcore.mode("sanitize") as report:
        precise.qr(A[0, :5, :3])
        precise.cholesky((A @ A.mT)[0, :5, :5])
        precise.solve(A[0, :5, :5], A[0, :5, :2])
    assert list(report.findings) == []


def _apple() -> Any:
    from metalcore.arrays.torch import TorchArrays
    from metalcore.runtimes.cpu import CpuRuntime

    return CpuRuntime(TorchArrays(), family="apple")


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda a: precise.solve(a, a[:2]), "of 3 rows"),
        (lambda a: precise.solve(a[:2], a), "square"),
        (lambda a: precise.solve(a, a.half()), "float32 as A is"),
        (lambda a: precise.cholesky(a, precision="exact"), "of sums and products alone"),
        (lambda a: precise.qr(a, "full"), "mode must be"),
        (lambda a: precise.qr(a[0]), "a matrix or a batch"),
        (lambda a: precise.qr(a.to(torch.complex64)), "complex matrices are not supported"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call(torch.eye(3))
