"""An MLX training loop with metalcore's ops against plain mlx: examples/mlx_finetune.py, smaller."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from metalcore.ops import nouns

pytest.importorskip("mlx.core")
PATH = Path(__file__).resolve().parents[2] / "examples" / "mlx_finetune.py"
NEEDED = {"rms_norm", "swiglu", "rope", "cross_entropy"}
STEPS = 50


@pytest.mark.skipif(not set(nouns()) >= NEEDED, reason="an op of the model is not there yet")
def test_losses_agree() -> None:
    spec = importlib.util.spec_from_file_location("mlx_finetune", PATH)
    assert spec is not None and spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    sys.modules["mlx_finetune"] = example
    spec.loader.exec_module(example)
    sizes = example.Sizes(width=32, heads=2, hidden=48, layers=2, tokens=16, batch=4)
    plain = example.train(example.PLAIN, STEPS, sizes)
    ours = example.train(example.METALCORE, STEPS, sizes)
    assert len(ours) == STEPS and max(abs(a - b) for a, b in zip(plain, ours, strict=True)) < 1e-4
    assert ours[-1] < 0.8 * ours[0]
