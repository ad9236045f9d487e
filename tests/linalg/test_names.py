"""The short names at the top level, and trsm, which has a calling convention of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError

SAME = ("cholesky", "cholesky_solve", "eigh", "lstsq", "pinv", "qr", "solve", "svd")


@pytest.mark.parametrize("name", SAME)
def test_the_functions_are_those_of_linalg(name: str) -> None:
    assert getattr(metalcore, name) is getattr(metalcore.linalg, name)
    assert name in metalcore.__all__ and name in dir(metalcore)


def matrix(*shape: int) -> torch.Tensor:
    """Both triangles are filled: the other one must not be read."""
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    return made + shape[-1] * torch.eye(shape[-1])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize(("a", "b"), [((9, 9), (9,)), ((9, 9), (9, 3)), ((4, 9, 9), (4, 9)), ((4, 9, 9), (4, 9, 2))])
def test_trsm(a: tuple[int, ...], b: tuple[int, ...], lower: bool, transpose: bool) -> None:
    A, B = matrix(*a), torch.randn(*b, generator=torch.Generator().manual_seed(2))
    x = metalcore.trsm(A, B, lower=lower, transpose=transpose)
    assert x.shape == B.shape
    triangle = A.tril() if lower else A.triu()
    is_vector = B.ndim < A.ndim
    product = (triangle.mT if transpose else triangle) @ (x[..., None] if is_vector else x)
    assert torch.allclose(product.squeeze(-1) if is_vector else product, B, atol=1e-5)


def test_trsm_is_lower_by_default_on_every_framework() -> None:
    A, B = matrix(5, 5), torch.ones(5)
    expected = torch.linalg.solve_triangular(A, B[:, None], upper=False)[:, 0]
    assert torch.allclose(metalcore.trsm(A, B), expected, atol=1e-6)
    found: Any = metalcore.trsm(A.numpy(), B.numpy())
    assert isinstance(found, np.ndarray) and np.allclose(found, expected.numpy(), atol=1e-6)
    mx = pytest.importorskip("mlx.core")
    found = metalcore.trsm(mx.array(A.numpy()), mx.array(B.numpy()), True, True)
    again = torch.linalg.solve_triangular(A.tril().mT, B[:, None], upper=True)[:, 0]
    assert isinstance(found, mx.array) and np.allclose(np.array(found), again.numpy(), atol=1e-6)


def test_trsm_has_a_gradient() -> None:
    A, B = matrix(4, 4).requires_grad_(), torch.ones(4, requires_grad=True)
    metalcore.trsm(A, B, transpose=True).sum().backward()  # type: ignore[no-untyped-call]
    got = (A.grad, B.grad)
    C, D = A.detach().clone().requires_grad_(), B.detach().clone().requires_grad_()
    torch.linalg.solve_triangular(C.tril().mT, D[:, None], upper=True).sum().backward()
    for mine, theirs in zip(got, (C.grad, D.grad), strict=True):
        assert mine is not None and theirs is not None and torch.allclose(mine, theirs, atol=1e-5)


def test_trsm_refuses_what_does_not_fit() -> None:
    with pytest.raises(ArgumentError, match="4 rows"):
        metalcore.trsm(matrix(4, 4), torch.ones(5))
