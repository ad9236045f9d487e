"""The example programs of attention: each ends with an error where its results do not agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def output(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_long_context() -> None:
    pytest.importorskip("torch")
    found = output("long_context.py", "--prompt", "100", "--tokens", "6")
    assert "6 blocks are shared, 2 are not" in found and "the same logits as dense attention" in found


@pytest.mark.sweep
def test_mlx_attention() -> None:
    pytest.importorskip("mlx.core")
    found = output("mlx_attention.py", "--tokens", "40")
    assert "causal, sinks" in found and "bytes" in found
