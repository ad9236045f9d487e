"""Linear algebra on mlx arrays, and through the text that the GPU frameworks would get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

mx = pytest.importorskip("mlx.core")

import metalcore.mlx  # noqa: E402
from metalcore.errors import ArgumentError  # noqa: E402
from metalcore.health.routes import text_mlx, text_mps, torch_ops_on  # noqa: E402
from metalcore.mlx.call import using  # noqa: E402
from metalcore.ops import functions  # noqa: E402
from tests.linalg.cases import CASES, DIFFERENTIABLE, USUAL, Case  # noqa: E402

every = pytest.mark.parametrize("case", [pytest.param(c, id=n) for n, c in CASES.items()])
usual = pytest.mark.parametrize(
    "case", [pytest.param(c, id=n, marks=[] if n in USUAL else [pytest.mark.sweep]) for n, c in CASES.items()]
)


def same(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    assert len(found) == len(expected) > 0
    for f, e in zip(found, expected, strict=True):
        truth = e.detach().double().numpy()
        values = f.numpy() if isinstance(f, torch.Tensor) else np.array(f)
        np.testing.assert_allclose(values, truth, rtol=2e-5, atol=2e-5 * max(1.0, np.abs(truth).max(initial=0)))


def arrays(case: Case) -> list[Any]:
    return [mx.array(t.numpy()) for t in case.inputs()]


@every
def test_mlx_arrays(case: Case) -> None:
    found = case.ours(*arrays(case), module=metalcore.mlx.linalg)
    assert all(isinstance(f, mx.array) for f in found)
    same(found, case.reference(*case.inputs(torch.float64)))


@usual
def test_the_text_for_mlx(case: Case) -> None:
    with using(text_mlx()):
        found = case.ours(*arrays(case), module=metalcore.mlx.linalg)
        mx.eval(*found)
    same(found, case.reference(*case.inputs(torch.float64)))


@usual
def test_the_text_for_mps(case: Case) -> None:
    with torch_ops_on(text_mps()):
        found = case.ours(*case.inputs())
    same(found, case.reference(*case.inputs(torch.float64)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("cholesky", "solve") else [pytest.mark.sweep]) for n in DIFFERENTIABLE],
)
def test_gradients(name: str) -> None:
    if name in ("topk_svd", "svd_lowrank"):
        pytest.skip("torch's starts from random vectors")
    case = CASES[name]
    tensors = [t.requires_grad_() if t.is_floating_point() else t for t in case.inputs(torch.float64)]
    sum((o.sum() for o in case.reference(*tensors) if o.requires_grad), torch.zeros(())).backward()
    given = arrays(case)
    places = tuple(i for i, t in enumerate(tensors) if t.requires_grad and t.grad is not None)

    def total(*values: Any) -> Any:
        found = case.ours(*values, module=metalcore.mlx.linalg)
        return sum((f.sum() for f in found if mx.issubdtype(f.dtype, mx.floating)), mx.array(0.0))

    found = mx.grad(total, argnums=places)(*given)
    for f, i in zip(found if len(places) > 1 else [found], places, strict=True):
        expected = tensors[i].grad.numpy()
        if name in ("cholesky_solve", "cholesky_inverse") and i == places[-1]:
            expected = np.tril(expected)  # torch fills the triangle that the function does not read
        np.testing.assert_allclose(np.array(f), expected, rtol=1e-3, atol=1e-3)


def test_names_and_other_arrays() -> None:
    assert set(dir(metalcore.mlx.linalg)) >= set(functions("linalg"))
    with pytest.raises(ArgumentError, match=r"metalcore.mlx.linalg.cholesky takes mlx arrays, not ndarray"):
        metalcore.mlx.linalg.cholesky(np.eye(2, dtype=np.float32))
