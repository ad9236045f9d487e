"""Which line is named as the one that launched a kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.errors import KernelFault

SOURCE = "kernel void k(device float* x, uint i [[thread_position_in_grid]]) { x[i + 2] = 1; }"


def test_the_innermost_line_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    function = metalcore.Library(SOURCE).function("k")

    def launch() -> None:
        function(np.zeros(4, np.float32), threads=4)

    line = launch.__code__.co_firstlineno + 1
    with pytest.raises(KernelFault, match=rf"\(launched at test_launched\.py:{line}\)"):
        launch()
    with metalcore.mode("sanitize") as report:
        launch()
    assert report.findings[0].launched == f"test_launched.py:{line}"


def test_not_a_package_in_between(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "theirs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def call(f, *given, **named):\n    f(*given, **named)\n")
    program = f"""import sys
sys.path.insert(0, {str(package.parent)!r})
import numpy as np, metalcore, theirs
f = metalcore.Library({SOURCE!r}).function("k")
theirs.call(f, np.zeros(4, np.float32), threads=4)
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "(launched at program.py:5)" in done.stderr


def test_the_command_names_none(tmp_path: Path) -> None:
    (tmp_path / "k.metal").write_text(SOURCE)
    script = tmp_path / "metalcore"
    script.write_text("from metalcore.tools.cli import main\nmain()\n")
    words = [sys.executable, str(script), "run", "k.metal", "k", "zeros:float32:4"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "out of bounds" in done.stderr and "launched" not in done.stderr
