"""What a review found once: each of these was wrong."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.runtimes.cpu import numpy_cpu
from metalcore.runtimes.kernel import Kernel, Out

linalg = metalcore.linalg


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_arrays_of_two_dtypes_are_refused() -> None:
    a = random(8, 8).float()
    with pytest.raises(ArgumentError, match="M must be of A's dtype"):
        linalg.svd_lowrank(a, 2, 2, a.double())
    with pytest.raises(ArgumentError, match="other must be of input's dtype"):
        linalg.ormqr(*torch.geqrf(a), a.double())


def test_a_launch_checks_dtypes() -> None:
    kernel = Kernel("linalg/svd_gradient", "svd_negative")
    for given, made in ((np.float64, "float32"), (np.float32, "float64")):
        with pytest.raises(ArgumentError, match="an array of float32, not of float64"):
            arguments = (np.zeros(3, given), Out((3,), made), 3)
            numpy_cpu().launch(kernel, ("float32",), (), arguments, (1,), (32,))


def test_what_is_no_array_is_refused() -> None:
    for given in ([[1.0]], None, 2.0):
        with pytest.raises(ArgumentError, match="A must be a torch tensor, a NumPy array or an mlx array"):
            linalg.svd(given)


def test_gradient_of_residuals() -> None:
    a, b = random(6, 3).requires_grad_(), random(6, 2).requires_grad_()
    for driver in ("gels", "gelsd"):
        found = linalg.lstsq(a, b, driver=driver)
        assert found.residuals.shape == (2,) and not found.singular_values.requires_grad
        assert torch.autograd.gradcheck(lambda a, b, d=driver: linalg.lstsq(a, b, driver=d)[:2], (a, b))
    theirs = torch.linalg.lstsq(a, b[:, 0], driver="gels").residuals
    ours = linalg.lstsq(a, b[:, 0], driver="gels").residuals
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("upper", [False, True])
def test_gradient_of_a_factor_reads_its_triangle_alone(upper: bool) -> None:
    whole = (random(3, 3) + 4 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: linalg.cholesky_inverse(f, upper=upper), whole)
    assert torch.autograd.gradcheck(lambda b, f: linalg.cholesky_solve(b, f, upper=upper), (random(3, 2), whole))


@pytest.mark.parametrize("batch", [(), (10,)])
def test_infinity_is_not_lost(batch: tuple[int, ...]) -> None:
    for n in (2, 5, 40):
        a = (torch.eye(n) * 3).repeat(*batch, 1, 1)
        a[..., 0, 0] = math.inf
        assert (linalg.cholesky_ex(a).info != 0).all()
        a[..., 1, 0] = 2
        assert not linalg.qr(a).Q.isfinite().all()
        assert not linalg.orthogonalize(a).isfinite().all()


def test_rank_of_what_requires_a_gradient() -> None:
    assert int(linalg.matrix_rank(random(4, 3).requires_grad_())) == 3


def test_norms_of_singular_values_are_compiled() -> None:
    a = random(3, 5, 4).float()
    for order in (2, "nuc"):
        compiled = torch.compile(lambda a, o=order: linalg.matrix_norm(a, o), backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(a), torch.linalg.matrix_norm(a, order))


def test_info_where_nothing_is_solved() -> None:
    for shape, sides in (((1, 3, 3), (0, 1, 3, 2)), ((1, 3, 3), (0, 3, 2)), ((2, 1, 3, 3), (0, 3, 2))):
        a, b = torch.eye(3).expand(shape), torch.zeros(sides)
        ours, theirs = linalg.solve_ex(a, b), torch.linalg.solve_ex(a, b)
        assert ours.result.shape == theirs.result.shape and torch.equal(ours.info, theirs.info)


def test_errors_name_the_function() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.cholesky_ex: "):
        linalg.cholesky_ex(-torch.eye(3), check_errors=True)


def test_results_can_be_pickled() -> None:
    found = linalg.svd(np.eye(3, dtype=np.float32))
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found) and np.array_equal(again.S, found.S)


def test_arrays_of_two_frameworks_are_refused() -> None:
    tensor, array = torch.eye(3), np.eye(3, dtype=np.float32)
    with pytest.raises(ArgumentError, match=r"linalg.solve: .* A is a torch tensor, B is a NumPy array"):
        linalg.solve(tensor, array)
    with pytest.raises(ArgumentError, match=r"linalg.matmul: .* input is a NumPy array, other is a torch tensor"):
        linalg.matmul(array, tensor)


def test_numbers_of_numpy() -> None:
    a = random(3, 4)
    assert torch.equal(linalg.norm(a, dim=np.int64(0)), linalg.norm(a, dim=0))
    assert torch.equal(linalg.matrix_norm(a, 1, (np.int64(0), 1)), linalg.matrix_norm(a, 1, (0, 1)))
    assert torch.equal(linalg.vector_norm(a, np.float32(3)), linalg.vector_norm(a, 3))
    assert linalg.cond(np.eye(3, dtype=np.float16), 1).dtype == np.float16
