"""Systems with a square matrix: shapes as torch.linalg.solve takes them, singular matrices, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios
from metalcore.health.linalg.matrices import make
from tests.linalg.test_lu import random

KINDS = ("random", "graded", "near_singular", "triangular", "large", "small", "hilbert", "orthogonal")


@pytest.mark.parametrize(
    "a, b",
    [
        ((3, 3), (3,)),
        ((5, 3, 3), (3,)),
        ((5, 3, 3), (5, 3)),
        ((5, 3, 3), (3, 2)),
        ((3, 3), (4, 3, 2)),
        ((1, 3, 3), (4, 3, 2)),
        ((5, 1, 3, 3), (2, 3, 2)),
        ((40, 3, 3), (40, 3, 3)),
        ((9, 3, 3), (9, 3, 40)),
        ((2, 40, 40), (2, 40, 5)),
        ((2, 0, 0), (2, 0, 4)),
        ((0, 3, 3), (0, 3, 1)),
        ((0, 64, 64), (0, 64, 1)),
        ((3, 3), (3, 0)),
    ],
    ids=str,
)
def test_as_torch(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    matrix, sides = random(*a) + 4 * torch.eye(a[-1]), random(*b, seed=1)
    ours, theirs = metalcore.linalg.solve_ex(matrix, sides), torch.linalg.solve_ex(matrix, sides)
    assert type(ours) is type(theirs) and torch.equal(ours.info, theirs.info)
    torch.testing.assert_close(ours.result, theirs.result, rtol=1e-3, atol=1e-4)
    assert torch.equal(metalcore.linalg.solve(matrix, sides), ours.result)
    if len(b) > 1 and b != a[:-1]:
        found = metalcore.linalg.solve(matrix, sides.mT, left=False)
        torch.testing.assert_close(found, torch.linalg.solve(matrix, sides.mT, left=False), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_matrices(kind: str) -> None:
    for n, batch in ((5, (9,)), (40, ())):
        a, b = make(kind, n, n, batch), random(*batch, n, 2).numpy()
        x = metalcore.linalg.solve(a.astype(np.float32), b)
        assert max(ratios.solve(a, x, b).values()) < 30


@pytest.mark.parametrize("n", [4, 40])
def test_singular(n: int) -> None:
    a, b = random(9, n, n), random(9, n)
    a[7, :, 1] = 0
    assert metalcore.linalg.solve_ex(a, b).info.tolist() == [*[0] * 7, 2, 0]
    with pytest.raises(torch.linalg.LinAlgError) as theirs:
        torch.linalg.solve(a, b)
    with pytest.raises(torch.linalg.LinAlgError) as ours:
        metalcore.linalg.solve(a, b)
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(torch.linalg.LinAlgError, match=r"solve_ex: The solver failed"):
        metalcore.linalg.solve_ex(a[7], b[7], check_errors=True)
    with pytest.raises(np.linalg.LinAlgError, match="Batch element 7"):
        metalcore.linalg.solve(a.numpy(), b.numpy())


def test_not_finite() -> None:
    a, b = random(9, 4, 4), random(9, 4)
    a[0, 0, 0] = float("nan")
    found = metalcore.linalg.solve(a, b)
    assert found[0].isnan().any() and torch.isfinite(found[1:]).all()


def test_refuses() -> None:
    a = torch.eye(3)
    for b, reason in (
        (torch.ones(5, 3), "5x3"),
        (torch.ones(4), "4x1"),
        (torch.ones(3).double(), "A's dtype"),
        (torch.tensor(1.0), "matrix"),
    ):
        with pytest.raises(ArgumentError, match=reason):
            metalcore.linalg.solve(a, b)
    with pytest.raises(ArgumentError, match="square"):
        metalcore.linalg.solve(torch.ones(2, 3), torch.ones(2))
    with pytest.raises(ArgumentError, match="broadcast"):
        metalcore.linalg.solve(a.expand(4, 3, 3), torch.ones(5, 3, 1))


@pytest.mark.sweep
@pytest.mark.parametrize("left", [True, False])
def test_gradients(left: bool) -> None:
    for a_batch, b_batch in (((9,), (9,)), ((), (2,)), ((2, 1), (2,))):
        a = random(*a_batch, 3, 3, dtype=torch.float64).requires_grad_()
        b = random(*b_batch, 3, 3, dtype=torch.float64, seed=1).requires_grad_()
        assert torch.autograd.gradcheck(lambda a, b: metalcore.linalg.solve(a, b, left=left), (a, b), fast_mode=True)
        assert torch.autograd.gradcheck(
            lambda a, b: metalcore.linalg.solve_ex(a, b, left=left).result, (a, b), fast_mode=True
        )


def test_half_precision_keeps_its_type() -> None:
    a, b = (random(9, 3, 3) + 3 * torch.eye(3)).bfloat16(), random(9, 3).bfloat16()
    found = metalcore.linalg.solve(a, b)
    assert torch.equal(found, metalcore.linalg.solve(a.float(), b.float()).bfloat16())
