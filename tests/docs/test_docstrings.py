"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for path in sorted((ROOT / "metalcore").rglob("*.py")) if ">>>" in path.read_text()]
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES]
# Over 7 CPU seconds each, all of it for compiling kernels that other tests have in other variants.
SLOW = (
    *("metalcore.mlx.nn", "metalcore.torch.xlstm"),
    *("metalcore.ops.linalg.least_squares", "metalcore.ops.linalg.lowrank"),
)


@pytest.mark.parametrize("name", [pytest.param(m, marks=[pytest.mark.sweep] if m in SLOW else []) for m in MODULES])
def test_examples(name: str) -> None:
    pytest.importorskip("torch")  # emulate()'s example is a PyTorch program
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0 and result.failed == 0
