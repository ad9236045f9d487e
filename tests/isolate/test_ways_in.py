"""`metalcore run --isolate` and `pytest --metal-isolate`: the whole process, every thread."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

CRASH = """
kernel void k(device uint* x, uint i [[thread_position_in_grid]]) {
  x[i] = 1;
  device uint* p = (device uint*)8ul;
  p[i] = x[i];
}
"""
PROGRAM = """
import sys, threading
import numpy as np
import metalcore
from metalcore.errors import IsolationError

def launch():
    x = np.zeros(4, np.uint32)
    with metalcore.mode("fast"):
        try:
            metalcore.Library("shader.metal").function("k")(x, threads=4)
        except IsolationError as error:
            print(error.signal, x.tolist(), flush=True)

launch()
thread = threading.Thread(target=launch)
thread.start()
thread.join()
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.feature("API", "metalcore run --isolate, pytest --metal-isolate")
def test_a_program_and_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "shader.metal").write_text(CRASH)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(tmp_path, "-m", "metalcore", "run", "--isolate", "program.py")
    assert done.stdout == "SIGSEGV [0, 0, 0, 0]\n" * 2 and done.returncode == 0, done.stderr
    (tmp_path / "good.metal").write_text(
        "kernel void k(device uint* x, uint i [[thread_position_in_grid]]) { x[i] = i; }"
    )
    done = run(
        tmp_path, "-m", "metalcore", "run", "good.metal", "k", "zeros:uint32:4", "--isolate", "--save", "0=x.npy"
    )
    assert done.returncode == 0 and np.load(tmp_path / "x.npy").tolist() == [0, 1, 2, 3], done.stderr


def test_the_plug_in(tmp_path: Path) -> None:
    (tmp_path / "shader.metal").write_text(CRASH)
    test = """
    import threading, pytest, numpy as np, metalcore

    made_early = metalcore.Library("kernel void k(device uint* x, uint i [[thread_position_in_grid]]) { x[i] = i; }")

    def crash():
        with metalcore.mode("fast"):
            metalcore.Library("shader.metal").function("k")(np.zeros(4, np.uint32), threads=4)

    def test_crashes():
        crash()

    def test_crashes_in_a_thread():
        caught = []
        def work():
            with pytest.raises(metalcore.errors.IsolationError): crash()
            caught.append(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert caught

    def test_works():
        x = np.zeros(4, np.uint32)
        made_early.function("k")(x, threads=4)
        assert x.tolist() == [0, 1, 2, 3]
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    done = run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "--metal-isolate", "--metal-isolate-timeout=30")
    assert "1 failed, 2 passed" in done.stdout and "IsolationError" in done.stdout, done.stdout + done.stderr
    assert "metal isolate: network: " in done.stdout
