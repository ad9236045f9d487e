"""Gradients proven on the kernels' own source: float is read as double, and torch compares with differences.

Functions of eigenvectors and singular vectors are such that do not depend on the signs of the vectors.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from metalcore.ops import find, nouns
from tests.linalg.cases import CASES, DIFFERENTIABLE, Case, general, positive

USUAL = ("cholesky", "qr", "solve", "eigh")
AGAINST_TORCH = tuple(n for n in DIFFERENTIABLE if n not in ("topk_svd", "svd_lowrank"))


def check(case: Case) -> bool:
    tensors = [t.requires_grad_() if t.is_floating_point() else t for t in case.inputs(torch.float64)]

    def run(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(o for o in case.ours(*given) if o.is_floating_point() and o.requires_grad)

    if not run(*tensors):
        return False
    return bool(torch.autograd.gradcheck(run, tensors, eps=1e-6, atol=1e-6, rtol=1e-5))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in USUAL else [pytest.mark.sweep]) for n in DIFFERENTIABLE]
)
def test_gradcheck(name: str) -> None:
    assert check(CASES[name])


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in USUAL else [pytest.mark.sweep]) for n in AGAINST_TORCH]
)
def test_gradients_are_torchs(name: str) -> None:
    """In float32, against torch's in float64, for random cotangents."""
    case = CASES[name]
    grads, places = [], None
    for dtype, run in ((torch.float64, case.reference), (torch.float32, case.ours)):
        tensors = [t.requires_grad_() if t.is_floating_point() else t for t in case.inputs(dtype)]
        outputs = run(*tensors)
        places = [i for i, o in enumerate(outputs) if o.requires_grad] if places is None else places
        reached = [outputs[i] for i in places]
        generator = torch.Generator().manual_seed(3)
        weights = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(dtype) for o in reached]
        inputs = [t for t in tensors if t.requires_grad]
        grads.append(torch.autograd.grad(reached, inputs, weights, allow_unused=True))
    for theirs, ours in zip(*grads, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            if name in ("cholesky_solve", "cholesky_inverse") and ours is grads[1][-1]:
                theirs = theirs.tril()  # torch fills the triangle that the function does not read
            torch.testing.assert_close(
                ours.double(), theirs, rtol=2e-4, atol=2e-4 * max(1.0, float(theirs.abs().max()))
            )


@pytest.mark.sweep
@pytest.mark.parametrize("shape", ["square", "wide"])
@pytest.mark.parametrize("name", [n for n in ("qr", "svd", "svdvals", "pinv", "lu") if n in CASES])
def test_gradcheck_of_other_shapes(name: str, shape: str) -> None:
    if name == "qr" and shape == "wide":
        pytest.skip("torch has no gradient of a wide one either")
    case = CASES[name]
    made = general(3, 3) if shape == "square" else general(3, 4)
    assert check(replace(case, tensors=lambda: (made,)))


@pytest.mark.sweep
@pytest.mark.parametrize("name", [n for n in ("cholesky", "solve", "inv", "eigh", "qr") if n in CASES])
def test_gradcheck_beyond_a_matrix_a_thread(name: str) -> None:
    """40 x 40: other kernels. Fast mode: a few random directions."""
    case = CASES[name]
    A = torch.randn(40, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A = A @ A.mT / 40 + torch.diag(torch.linspace(1, 3, 40, dtype=torch.float64))
    tensors = [A.requires_grad_()]
    if name == "solve":
        tensors.append(torch.ones(40, 2, dtype=torch.float64).requires_grad_())
    assert torch.autograd.gradcheck(case.ours, tensors, eps=1e-6, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_what_torch_differentiates_has_a_gradient() -> None:
    not_torchs = {"complete_basis", "polar", "newton_schulz"}
    without = {f"linalg_{name}" for name in ("matrix_rank", "geqrf", *not_torchs)}
    lacking = [n for n in nouns("linalg") if find(n).backward is None and n not in without]
    assert lacking == [], "no gradient yet"


def test_positive_is_positive() -> None:
    assert (torch.linalg.eigvalsh(positive()) > 0.5).all()
