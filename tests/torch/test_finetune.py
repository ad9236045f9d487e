"""The example program: it ends with an error where the losses do not agree."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytorch_finetune.py"


def test_losses_agree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--steps", "4"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "largest difference of a loss" in capsys.readouterr().out
