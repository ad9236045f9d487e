"""The polar decomposition and Muon's iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError
from metalcore.health.cases.linalg.polar import newton_schulz_reference
from metalcore.health.linalg.matrices import make
from metalcore.health.linalg.ratios import ROUNDING, norm, orthogonality

KINDS = ("random", "near_singular", "rank_deficient", "graded", "zero", "hilbert", "near_overflow", "near_underflow")


@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (30, 10), (10, 30), (40, 40)])
def test_ratios(shape: tuple[int, int]) -> None:
    for kind in KINDS:
        A = make(kind, *shape)
        U, P = metalcore.linalg.polar(torch.tensor(A, dtype=torch.float32))
        assert orthogonality(U)["orthogonality"] < 30, kind
        assert torch.equal(P, P.mT)
        u, p = U.double().numpy(), P.double().numpy()
        size = float(norm(A)) or 1.0
        assert float(norm(A - u @ p)) < 30 * max(shape) * ROUNDING * size, kind
        assert float(np.linalg.eigvalsh(p).min()) > -30 * max(shape) * ROUNDING * size, kind


@pytest.mark.sweep
@pytest.mark.parametrize("size", [128, 200])
def test_a_least_singular_value_far_below_the_rounding(size: int) -> None:
    U, _ = metalcore.linalg.polar(torch.tensor(make("kahan", size, size), dtype=torch.float32))
    assert orthogonality(U)["orthogonality"] < 30


def test_it_is_the_nearest_orthogonal_matrix() -> None:
    A = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, s, vh = torch.linalg.svd(A, full_matrices=False)
    found = metalcore.linalg.polar(A.float())
    torch.testing.assert_close(found.U.double(), u @ vh, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.P.double(), vh.mT @ (s[..., None] * vh), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (2, 5, 5)])
def test_newton_schulz(shape: tuple[int, ...]) -> None:
    G = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    X = metalcore.linalg.newton_schulz(G)
    torch.testing.assert_close(X, newton_schulz_reference(G), rtol=1e-4, atol=1e-5)
    values = torch.linalg.svdvals(X)
    assert values.min() > 0.3 and values.max() < 1.3
    assert metalcore.linalg.newton_schulz(G.bfloat16()).dtype == torch.bfloat16
    cubic = metalcore.linalg.newton_schulz(G, steps=40, coefficients=(1.5, -0.5, 0.0))
    assert orthogonality(cubic)["orthogonality"] < 30
    assert not metalcore.linalg.newton_schulz(torch.zeros(shape)).any()


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="steps"):
        metalcore.linalg.newton_schulz(torch.eye(3), steps=-1)
    with pytest.raises(ArgumentError, match="three numbers"):
        metalcore.linalg.newton_schulz(torch.eye(3), coefficients=(1.0, 2.0))
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.polar: .*non-finite"):
        metalcore.linalg.polar(torch.full((3, 3), torch.nan))
    with pytest.raises(ArgumentError, match="complex"):
        metalcore.linalg.polar(torch.eye(3, dtype=torch.complex64))
