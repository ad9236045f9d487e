"""Stubs are up to date, and a type checker finds the ops in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("mlx.core")

from tests.ops.stubs import PACKAGE, texts

PROGRAM = """import metalcore
import metalcore.mlx
reveal_type(metalcore.rms_norm)
reveal_type(metalcore.linalg.svd)
reveal_type(metalcore.precise.dot)
reveal_type(metalcore.mlx.silu)
metalcore.rms_norm(1, (2,), epsilon=0.1)
metalcore.no_such_op
"""


def test_up_to_date() -> None:
    for path, text in texts().items():
        assert path.exists() and path.read_text() == text, f"{path}: python -m tests.ops.stubs"


@pytest.mark.sweep
def test_what_a_type_checker_sees(tmp_path: Path) -> None:
    """The stubs alone: the rest of the package takes mypy a minute."""
    pytest.importorskip("mypy")
    for path in texts():
        place = tmp_path / "metalcore" / path.relative_to(PACKAGE)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(path, place)
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--config-file=", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    seen = subprocess.run(
        [sys.executable, "-m", "mypy", *options],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    ).stdout
    seen = seen.replace("builtins.", "").replace("Union[float, None]", "float | None")  # as older ones write it
    signature = "(input: Any, normalized_shape: typing.Sequence[int], weight: Any =, eps: float | None =) -> Any"
    assert f'program.py:3: note: Revealed type is "def {signature}"' in seen
    for line, start in ((4, "def (A: Any"), (5, "def (x: Any, y: Any"), (6, "def (input: Any")):
        assert f'program.py:{line}: note: Revealed type is "{start}' in seen
    assert 'program.py:7: error: Unexpected keyword argument "epsilon" for "rms_norm"' in seen
    assert 'program.py:8: error: Module has no attribute "no_such_op"' in seen
    # The stubs import modules that were not copied: what is wrong there says nothing.
    assert sum(line.startswith("program.py") and " error: " in line for line in seen.split("\n")) == 2
