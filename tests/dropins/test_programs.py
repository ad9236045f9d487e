"""Whole programs written for a Mac, unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.feature("API", "metalcore run PROGRAM.py: unchanged programs for a Mac")
@pytest.mark.parametrize(("program", "shown"), [("pytorch_silu.py", "device mps:0"), ("mlx_logsumexp.py", "gradient:")])
def test_examples(program: str, shown: str) -> None:
    pytest.importorskip("torch" if "torch" in program else "mlx.core")
    command = [sys.executable, "-m", "metalcore.tools.cli", "run", str(EXAMPLES / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_arguments_and_exit_status_are_the_programs_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, helper\nprint(helper.x, sys.argv[1:], __name__)\nsys.exit(7)\n")
    (tmp_path / "helper.py").write_text("x = 5\n")
    command = [sys.executable, "-m", "metalcore.tools.cli", "run", str(program), "--threads", "-h", "a b"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (7, "5 ['--threads', '-h', 'a b'] __main__\n")


def test_errors_of_the_program_are_shown_as_python_shows_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise OSError('of the program')\n")
    command = [sys.executable, "-m", "metalcore.tools.cli", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "Traceback" in done.stderr and "OSError: of the program" in done.stderr


def test_mode_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom metalcore.engine.modes import current_mode\nprint(current_mode(), sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "metalcore.tools.cli", "run"]
    for words, expected in (([], "checked ['--mode', 'x']\n"), (["--mode", "fast"], "fast ['--mode', 'x']\n")):
        done = subprocess.run(
            [*command, *words, str(program), "--mode", "x"], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr
    done = subprocess.run(
        [*command, "--mode", "x", str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2 and "--mode is one of" in done.stderr
