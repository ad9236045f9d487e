"""A = Q R: every way to run it, by LAPACK's ratios; modes, signs, gradients' limits and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import make
from metalcore.ops.linalg.base.matrix import Batch
from metalcore.ops.linalg.base.tall_qr import suits
from metalcore.ops.linalg.qr import QR
from metalcore.runtimes.cpu import CpuRuntime

KINDS = ("random", "graded", "rank_deficient", "zero", "near_overflow", "near_underflow", "hilbert", "kahan")
SHAPES = (
    pytest.param((40, 8, 8), id="a matrix a thread"),
    pytest.param((7, 3, 8), id="wide, a matrix a thread"),
    pytest.param((50, 20), id="one panel"),
    pytest.param((70, 40), id="panels"),
    pytest.param((40, 70), id="panels, wide"),
    pytest.param((2000, 8), id="a tree"),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_ratios_and_signs(shape: tuple[int, ...]) -> None:
    for kind in KINDS:
        exact = make(kind, *shape[-2:], shape[:-2])
        A = torch.tensor(exact, dtype=torch.float32)
        Q, R = metalcore.linalg.qr(A)
        assert max(ratios.qr(exact, Q, R).values()) < 30, kind
    A = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found, expected = metalcore.linalg.qr(A), torch.linalg.qr(A.double())
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f.double(), e, rtol=1e-4, atol=1e-4)
    assert isinstance(found, torch.return_types.linalg_qr)


@pytest.mark.parametrize("shape", [(5, 4, 3), (3, 7), (40, 33), (0, 3), (3, 0), (2, 0, 0), (0, 3, 2), (40, 0), (0, 40)])
def test_modes(shape: tuple[int, ...]) -> None:
    A = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    for mode in ("reduced", "complete", "r"):
        found, expected = metalcore.linalg.qr(A, mode), torch.linalg.qr(A, mode=mode)
        assert [f.shape for f in found] == [e.shape for e in expected]
        for f, e in zip(found, expected, strict=True):
            torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-4)


def test_a_tall_batch() -> None:
    A = torch.randn(3, 1500, 5, generator=torch.Generator().manual_seed(3))
    assert suits(CpuRuntime(TorchArrays()), Batch.of(A), "float32")
    Q, R = metalcore.linalg.qr(A)
    assert max(ratios.qr(A, Q, R).values()) < 30
    assert torch.equal(metalcore.linalg.qr(A, "r")[1], R)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(50, 20), (70, 40), (40, 70), (2000, 8)])
def test_launches_of_a_gpu(shape: tuple[int, ...]) -> None:
    run = CpuRuntime(TorchArrays(), family="apple")
    for kind in ("random", "rank_deficient", "graded"):
        exact = make(kind, *shape)
        Q, R = QR.forward.plan(run, torch.tensor(exact, dtype=torch.float32), "reduced")
        assert max(ratios.qr(exact, Q, R).values()) < 30, kind


def test_not_a_number_goes_through() -> None:
    A = torch.eye(4)
    A[1, 1] = float("nan")
    for given in (A, A.repeat(12, 12)):
        Q, R = metalcore.linalg.qr(given)
        assert Q.isnan().any() and R.isnan().any()


def test_numpy() -> None:
    A = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    Q, R = metalcore.linalg.qr(A)
    np.testing.assert_allclose(Q @ R, A, atol=1e-5)


def test_gradients_that_torch_does_not_have_either() -> None:
    A = torch.randn(4, 3, requires_grad=True)
    with pytest.raises(ArgumentError, match="needs Q"):
        metalcore.linalg.qr(A, "r")[1].sum().backward()
    with pytest.raises(ArgumentError, match="more rows than columns"):
        metalcore.linalg.qr(A, "complete")[0].sum().backward()


@pytest.mark.parametrize("shape", [(3, 5), (4, 4)])
def test_gradient_of_complete(shape: tuple[int, ...]) -> None:
    A = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda A: metalcore.linalg.qr(A, "complete"), (A,))


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="'reduced', 'complete' or 'r'"):
        metalcore.linalg.qr(torch.eye(3), "full")
    with pytest.raises(ArgumentError, match="a matrix"):
        metalcore.linalg.qr(torch.ones(3))
