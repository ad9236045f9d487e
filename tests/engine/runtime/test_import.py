"""`import metalcore` is quick and brings no framework and no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

import metalcore


def _python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_nothing_heavy_is_imported() -> None:
    heavy = ("torch", "mlx", "llvmlite", "numpy", "ziglang", "click", "rich", "subprocess")
    loaded = _python(f"import sys, metalcore; print([m for m in {heavy} if m in sys.modules])")
    assert loaded == "[]\n"


def test_import_time() -> None:
    program = "import time; t = time.perf_counter(); import metalcore; print(time.perf_counter() - t)"
    assert min(float(_python(program)) for _ in range(3)) < 0.3


def test_public_names() -> None:
    assert set(metalcore.__all__) <= set(dir(metalcore))
    for name in metalcore.__all__:
        assert getattr(metalcore, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        metalcore.nonsense  # noqa: B018
