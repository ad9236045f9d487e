"""The package `xlstm`, which scripts/setup puts into .venv/peers, in a process of its own: where transformers finds the
package, it takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv" / "peers"


@pytest.mark.sweep
def test_modules_load_its_state_and_give_its_results() -> None:
    if not (PEERS / "xlstm").is_dir():
        pytest.fail("no package xlstm to compare with: run scripts/setup test")
    path = os.pathsep.join([str(PEERS), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "sweep or not sweep"]
    command += [str(ROOT / "tests" / "torch" / "test_xlstm_package.py")]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
