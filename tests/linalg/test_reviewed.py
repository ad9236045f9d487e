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
            arguments = dict(a=np.zeros(3, given), out=Out((3,), made), count=3)
            numpy_cpu().launch(kernel, ("float32",), (), arguments, (1,), (32,))


def test_what_is_no_array_is_refused() -> None:
    for given in ([[1.0]], None, 2.0):
        with pytest.raises(ArgumentError, match="A must be a torch tensor, a NumPy array or an mlx array"):
            linalg.svd(given)


@pytest.mark.sweep
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


@pytest.mark.parametrize("columns", [24, 25, 32])
def test_tall_qr_of_up_to_32_columns(columns: int) -> None:
    a = random(130 * columns, columns).float()
    Q, R = linalg.qr(a)
    torch.testing.assert_close(Q @ R, a, rtol=0, atol=2e-5)
    torch.testing.assert_close(Q.mT @ Q, torch.eye(columns), rtol=0, atol=3e-6)


def test_random_matrices_of_few_columns_converge() -> None:
    """Roundings left some pairs of columns just above the tolerance in every sweep."""
    many = np.random.default_rng(1).standard_normal((1000, 40, 4), dtype=np.float32)
    one = torch.randn(20, 3000, 3, generator=torch.Generator().manual_seed(2))[2].numpy()
    for a, found in ((many, linalg.svd(many).S), (one, linalg.svdvals(one))):
        np.testing.assert_allclose(found, np.linalg.svd(a.astype(np.float64), compute_uv=False), rtol=1e-5)


@pytest.mark.parametrize("n", [4, 33])
def test_determinant_of_graded_matrices(n: int) -> None:
    a = torch.diag(torch.tensor([1e30, 1e-30] * (n // 2) + [1.0] * (n % 2)))
    for given in (a, a.expand(9, n, n)):
        torch.testing.assert_close(linalg.det(given), torch.ones(given.shape[:-2]))
    b = torch.diag(torch.tensor([1e20, 1e-20] * 2)).requires_grad_()
    linalg.det(b).backward()
    torch.testing.assert_close(b.grad.diagonal(), 1 / b.detach().diagonal())


def test_nan_is_not_singular() -> None:
    a = 3 * torch.eye(3)
    a[1, 0] = math.nan
    assert torch.equal(linalg.lu_factor_ex(a).pivots, torch.linalg.lu_factor_ex(a).pivots)
    for given in (a, a.expand(9, 3, 3)):
        assert linalg.inv(given).isnan().all() and not linalg.inv_ex(given).info.any()


def test_hermitian_reads_the_lower_triangle() -> None:
    a = random(3, 5, 5)
    torch.testing.assert_close(linalg.pinv(a, hermitian=True), torch.linalg.pinv(a, hermitian=True))
    ours, theirs = (a + a.mT).requires_grad_(), (a + a.mT).requires_grad_()
    weights = random(3, 5, 5)
    (linalg.pinv(ours, hermitian=True) * weights).sum().backward()
    (torch.linalg.pinv(theirs, hermitian=True) * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert linalg.matrix_rank(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), hermitian=True) == 0


def test_vmap_over_nothing() -> None:
    for function in (linalg.inv, linalg.svdvals, lambda a: linalg.qr(a).R):
        assert torch.func.vmap(function)(torch.zeros(0, 3, 3)).shape[0] == 0


def test_lists_are_refused_wherever_they_stand() -> None:
    a = np.eye(2, dtype=np.float32)
    calls = {
        "B": (lambda: linalg.solve(a, [1.0, 2.0]), lambda: linalg.lstsq(a, None)),
        "A": (lambda: linalg.solve_ex([[1.0]], a),),
        "pivots": (lambda: linalg.lu_solve(a, [1, 2], a),),
        "other": (lambda: linalg.matmul(a, [1.0]),),
        "tau": (lambda: linalg.householder_product(a, [1.0]),),
    }
    for name, some in calls.items():
        for call in some:
            with pytest.raises(ArgumentError, match=f"{name} must be a torch tensor"):
                call()


def test_gradients_in_half_precision_divide_by_unrounded_differences() -> None:
    close = torch.tensor([[1.0, 2**-9], [2**-9, 1.0]])
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        a = close.to(dtype, copy=True).requires_grad_()
        vectors = linalg.eigh(a).eigenvectors
        (vectors[0, 0] * vectors[0, 1] * vectors[1, 0]).backward()
        b = torch.tensor([[1.0, 2**-9], [0.0, 1.0]], dtype=dtype).requires_grad_()
        U = linalg.svd(b).U
        U[0, 0].backward()
        found.append((a.grad.float(), b.grad.float()))
    for single, half in zip(*found, strict=True):
        torch.testing.assert_close(half, single, rtol=0.05, atol=0.05 * float(single.abs().max()))


def test_norms_of_singular_values_in_half_precision() -> None:
    assert linalg.matrix_norm(torch.eye(3).half(), 2) == 1
    assert linalg.matrix_norm(torch.eye(3).bfloat16(), "nuc").dtype == torch.bfloat16


def test_overrides_take_the_words_of_torch() -> None:
    factor, b = torch.linalg.cholesky(torch.eye(5)), random(5, 2).float()
    with metalcore.overrides("torch.cholesky_solve", "torch.linalg.pinv"), metalcore.explain() as log:
        torch.testing.assert_close(torch.cholesky_solve(input=b, input2=factor), b)
        torch.linalg.pinv(input=factor)
    assert [entry.op for entry in log] == ["linalg_cholesky_solve", "linalg_pinv"]
    assert all("override" in entry.reason for entry in log)


def test_residuals_without_a_look_at_the_rank() -> None:
    a, b = random(4, 6, 3), random(4, 6, 2)
    mapped = torch.func.vmap(lambda a, b: linalg.lstsq(a, b, driver="gelsd").residuals)(a, b)
    torch.testing.assert_close(mapped, torch.linalg.lstsq(a, b, driver="gelsd").residuals)


def test_the_condition_of_a_singular_array_is_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    assert linalg.cond(np.diag(np.array([1, 0], np.float32))) == math.inf
    assert linalg.cond(np.diag(np.array([1, 0], np.float32)), "nuc") == math.inf
    assert math.isnan(linalg.cond(np.zeros((2, 2), np.float32), "nuc"))
    assert not recwarn.list


def test_columns_far_apart_keep_their_digits() -> None:
    """The squares of what stood below a pivot vanished beside it, and the reflection was left out."""
    a = np.array([[0.28370675, 1.6126663e-24], [-0.7055775, -1.2020228e-24]], np.float32)
    exact = abs(np.linalg.det(a[:, 0:1].astype(np.float64) * [1, 0] + a[:, 1:2].astype(np.float64) * [0, 1]))
    exact /= np.hypot(*a[:, 0].astype(np.float64))  # the columns are that far apart: to all digits of float64
    for given in (a, np.repeat(a[None], 9, 0)):
        found = linalg.svdvals(given).reshape(-1, 2)[0]
        assert abs(found[1] / exact - 1) < 1e-5
    for n in (3, 40, 150):
        well = np.linalg.qr(random(n, n).numpy())[0]
        scaled = (well * np.where(np.arange(n) % 2, 1e-25, 1.0)).astype(np.float32)
        sizes = np.where(np.arange(n) < -(-n // 2), 1.0, 1e-25)
        np.testing.assert_allclose(linalg.svdvals(scaled), sizes, rtol=1e-5)


def test_least_squares_under_transforms() -> None:
    a, b = random(4, 6, 3), random(4, 6, 2)
    gradient = torch.func.grad(lambda a, b: linalg.lstsq(a, b, driver="gelsd").solution.sum())
    torch.testing.assert_close(
        torch.func.vmap(gradient)(a, b), torch.stack([gradient(x, y) for x, y in zip(a, b, strict=True)])
    )
    found = torch.func.vmap(lambda a, b: tuple(linalg.lstsq(a, b)))(a[:0], b[:0])
    assert found[0].shape == (0, 3, 2)


def test_odd_dimensions() -> None:
    a = random(3, 4)
    for call in (linalg.norm, linalg.vector_norm):
        assert torch.equal(call(a, 2, torch.tensor(1)), call(a, 2, 1))
    for function, dim in ((linalg.norm, 1.5), (linalg.matrix_norm, 1.5), (linalg.matrix_norm, None)):
        with pytest.raises(ArgumentError, match="dim must be"):
            function(a, dim=dim)
