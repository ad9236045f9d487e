"""The inverse and the determinant."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import make
from tests.linalg.test_lu import random

SHAPES = [(1, 1), (3, 3), (40, 4, 4), (2, 5, 7, 7), (32, 32), (2, 40, 40), (2, 0, 0), (0, 3, 3), (0, 64, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_torch(shape: tuple[int, ...]) -> None:
    a = random(*shape) + 3 * torch.eye(shape[-1])
    ours, theirs = metalcore.linalg.inv_ex(a), torch.linalg.inv_ex(a)
    assert type(ours) is type(theirs) and torch.equal(ours.info, theirs.info)
    torch.testing.assert_close(ours.inverse, theirs.inverse, rtol=1e-3, atol=1e-4)
    assert torch.equal(metalcore.linalg.inv(a), ours.inverse)
    torch.testing.assert_close(metalcore.linalg.det(a), torch.linalg.det(a), rtol=1e-4, atol=1e-5)
    found, expected = metalcore.linalg.slogdet(a), torch.linalg.slogdet(a)
    assert type(found) is type(expected) and torch.equal(found.sign, expected.sign)
    torch.testing.assert_close(found.logabsdet, expected.logabsdet, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["random", "graded", "near_singular", "triangular", "hilbert", "orthogonal"])
def test_kinds_of_matrices(kind: str) -> None:
    for n, batch in ((5, (9,)), (40, ())):
        a = make(kind, n, n, batch)
        assert max(ratios.inverse(a, metalcore.linalg.inv(a.astype(np.float32))).values()) < 30


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_small_and_large_numbers(scale: float) -> None:
    for shape in ((9, 5, 5), (1, 40, 40)):
        a = random(*shape) * scale
        inverse = metalcore.linalg.inv(a)
        assert max(ratios.inverse(a.numpy(), inverse.numpy()).values()) < 30
        found, expected = metalcore.linalg.slogdet(a), torch.linalg.slogdet(a)
        torch.testing.assert_close(found.logabsdet, expected.logabsdet)


@pytest.mark.parametrize("n", [4, 40])
def test_singular(n: int) -> None:
    a = random(9, n, n)
    a[7, :, 1] = 0
    assert metalcore.linalg.inv_ex(a).info.tolist() == [*[0] * 7, 2, 0]
    with pytest.raises(torch.linalg.LinAlgError) as theirs:
        torch.linalg.inv(a)
    with pytest.raises(torch.linalg.LinAlgError) as ours:
        metalcore.linalg.inv(a)
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(torch.linalg.LinAlgError, match=r"inv_ex: The diagonal element 2 is zero"):
        metalcore.linalg.inv_ex(a[7], check_errors=True)
    found = metalcore.linalg.slogdet(a)
    assert found.sign[7] == 0 and found.logabsdet[7] == -float("inf") and metalcore.linalg.det(a)[7] == 0


def test_determinant_of_a_singular_matrix_has_torchs_gradient() -> None:
    for n in (3, 20):
        a = torch.diag(torch.arange(n).float()).requires_grad_()
        metalcore.linalg.det(a).backward()
        ours, a.grad = a.grad, None
        torch.linalg.det(a).backward()
        assert ours is not None and torch.equal(ours, a.grad)


def test_not_finite() -> None:
    a = random(9, 4, 4)
    a[0, 0, 0] = float("nan")
    assert metalcore.linalg.inv(a)[0].isnan().any() and torch.isfinite(metalcore.linalg.inv(a)[1:]).all()
    assert metalcore.linalg.det(a)[0].isnan() and metalcore.linalg.slogdet(a).logabsdet[0].isnan()


def test_refuses() -> None:
    for function in ("inv", "inv_ex", "det", "slogdet"):
        run = getattr(metalcore.linalg, function)
        with pytest.raises(ArgumentError, match="square"):
            run(torch.ones(2, 3))
        with pytest.raises(ArgumentError, match="complex"):
            run(torch.eye(2, dtype=torch.complex64))
        with pytest.raises(ArgumentError, match="int64"):
            run(torch.ones(2, 2, dtype=torch.int64))


@pytest.mark.sweep
@pytest.mark.parametrize("batch", [(), (9,)], ids=str)
def test_gradients(batch: tuple[int, ...]) -> None:
    a = random(*batch, 3, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(metalcore.linalg.inv, (a,), fast_mode=True)
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.inv_ex(a).inverse, (a,), fast_mode=True)
    assert torch.autograd.gradcheck(metalcore.linalg.det, (a,), fast_mode=True)
    assert torch.autograd.gradcheck(lambda a: metalcore.linalg.slogdet(a).logabsdet, (a,), fast_mode=True)
