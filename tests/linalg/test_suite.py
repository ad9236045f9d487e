"""A thin slice of the accuracy suite; `metalcore health --linalg` runs all of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from metalcore.errors import ArgumentError
from metalcore.health.linalg import ratios, suite
from metalcore.health.linalg.command import groups
from metalcore.health.linalg.graded import jacobi_values, scaled_matrix
from metalcore.health.linalg.matrices import KINDS, POSITIVE_DEFINITE, SYMMETRIC, make
from metalcore.health.linalg.trials import TRIALS
from metalcore.tools.cli import cli
from tests.linalg.table import PAGE, with_functions

SMALL, LARGE = (5, 1000), (40, 7)  # size and batch: a matrix a thread, a matrix a threadgroup


@pytest.mark.parametrize("name", [n for n in suite.names() if n in TRIALS])
@pytest.mark.parametrize(("size", "batch"), [SMALL, LARGE])
def test_ratios_of_mixed_batches(name: str, size: int, batch: int) -> None:
    outcomes = list(suite.run(name, (size,), (batch,)))
    assert [o.explain() for o in outcomes if not o.passed] == []
    assert outcomes or size > TRIALS[name].most


@pytest.mark.sweep
@pytest.mark.parametrize("name", suite.names())
def test_ratios(name: str) -> None:
    outcomes = list(suite.run(name, (0, 1, 2, 3, 16, 31, 32, 33, 100)))
    assert outcomes
    assert [o.explain() for o in outcomes if not o.passed] == []


@pytest.mark.parametrize("name", [n for n in suite.names() if n not in TRIALS])
def test_small_singular_values_of_scaled_matrices_keep_their_digits(name: str) -> None:
    outcomes = list(suite.run(name, SMALL[:1]))
    assert outcomes
    assert [o.explain() for o in outcomes if not o.passed] == []


def test_the_reference_for_scaled_matrices_agrees_with_high_precision() -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for side in ("rows", "columns"):
            A = scaled_matrix(6, side)
            exact = mpmath.svd_r(mpmath.matrix(A.tolist()), compute_uv=False)
            found = jacobi_values(A.T if side == "rows" else A)
            assert max(abs(f - e) / e for f, e in zip(found.tolist(), exact, strict=True)) < 1e-13


@pytest.mark.parametrize("kind", dict.fromkeys((*KINDS, *SYMMETRIC, *POSITIVE_DEFINITE)))
def test_matrices_are_what_they_are_said_to_be(kind: str) -> None:
    A = make(kind, 6, 6, (3,), seed=1)
    assert A.shape == (3, 6, 6) and A.dtype == np.float64
    assert np.array_equal(A.astype(np.float32), A)
    assert np.array_equal(A, make(kind, 6, 6, (3,), seed=1))
    if kind in SYMMETRIC:
        assert np.array_equal(A, A.swapaxes(-1, -2))
    if kind in POSITIVE_DEFINITE:
        assert (np.linalg.eigvalsh(A) > 0).all()
    largest = np.abs(A).max()
    if "overflow" in kind:
        assert 1e35 < largest < 1e38
    if "underflow" in kind:
        assert 1e-37 < largest < 1e-35
    if kind == "rank_deficient":
        assert (np.linalg.matrix_rank(A) <= 3).all()


def test_ratios_see_what_is_wrong() -> None:
    A = make("random", 6, 4, (2,))
    Q, R = np.linalg.qr(A)
    good = ratios.qr(A, Q, R)
    assert max(good.values()) < 0.1  # float64 results, in units of float32
    assert ratios.qr(A, Q * 1.001, R)["orthogonality"] > 100
    assert ratios.qr(A, Q, R * 1.001)["residual"] > 100
    assert ratios.qr(A, Q, R + np.eye(4, k=-1) * 1e-30)["shape"] == float("inf")
    U, S, Vh = np.linalg.svd(A, full_matrices=False)
    assert max(ratios.svd(A, U, S, Vh).values()) < 0.1
    assert ratios.svd(A, U, S[..., ::-1], Vh)["order"] == float("inf")
    assert ratios.svd(A, U, S, Vh[..., ::-1, :])["residual"] > 100
    assert ratios.svd(A, np.full_like(U, np.nan), S, Vh)["residual"] == float("inf")
    zero = np.zeros((3, 3))
    assert ratios.cholesky(zero, zero) == {"residual": 0.0, "shape": 0.0}


def test_the_command_runs_it_and_writes_reports(tmp_path: Path) -> None:
    report = tmp_path / "linalg.json"
    words = ["health", "--linalg", "cholesky", "--size", "5", "-j", "1", "--json", str(report)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "positive_near_overflow" in done.output and "cases pass" in done.output
    data = json.loads(report.read_text())
    assert data["passed"] and {row["noun"] for row in data["rows"]} >= {"linalg.cholesky", "linalg.cholesky upper"}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"nothing named 'cholesk' in linear algebra; there are .*cholesky"):
        groups(["cholesk"], (), ("numpy",), 1)
    with pytest.raises(ArgumentError, match="there is no route 'cuda'"):
        groups([], (), ("cuda",), 1)


def test_the_page_lists_every_function() -> None:
    text = PAGE.read_text()
    assert with_functions(text) == text, "run: python -m tests.linalg.table"
