"""The example programs of xLSTM: each ends with an error where it did not learn its task."""

from __future__ import annotations

import pytest

from tests.docs.test_attention_examples import output


@pytest.mark.sweep
def test_parity() -> None:
    pytest.importorskip("torch")
    found = output("xlstm_parity.py")
    assert "accuracy at 40 bits" in found and "bit by bit the same" in found


@pytest.mark.sweep
def test_mlx_parity_in_short() -> None:
    pytest.importorskip("mlx.core")
    found = output("mlx_xlstm_parity.py", "--steps", "3", "--no-goal")
    assert "3 steps: accuracy at 40 bits" in found and "bit by bit the same" in found


@pytest.mark.sweep
def test_mlx_parity() -> None:
    pytest.importorskip("mlx.core")
    found = output("mlx_xlstm_parity.py")
    assert "accuracy at 40 bits" in found and "bit by bit the same" in found
