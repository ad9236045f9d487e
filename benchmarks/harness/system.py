"""Costs around a kernel: a warm launch, a cold compile, the first call of a cached kernel in a new process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAUNCHES = Path(__file__).with_name("launches.py")
KERNELS = Path(__file__).resolve().parent.parent / "kernels"

# Each is a whole program in a new process. They print seconds.
_FIRST_CALL = """
import sys, time
import numpy as np
from metalcore import Library
x, w, y = np.ones(4096, np.float32), np.ones(1024, np.float32), np.zeros(4096, np.float32)
start = time.perf_counter()
Library(sys.argv[1]).function("rms_norm")(x, w, y, 1024, 1e-5, threadgroups=4, group_size=256)
took = time.perf_counter() - start
assert np.allclose(y, 1.0, atol=1e-4)
print(took)
"""
_SET_UP = """
import metalcore, numpy as np
x = np.zeros(32, np.float32)
metalcore.Library("kernel void one(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }").function("one")(
    x, threads=32)
"""
_FIRST_OP = """
import time, torch, metalcore
x, w = torch.ones(4, 1024), torch.ones(1024)
start = time.perf_counter()
y = metalcore.rms_norm(x, (1024,), w)
took = time.perf_counter() - start
assert torch.allclose(y, x, atol=1e-4)
print(took)
"""


def _run(program: str | Path, *arguments: str, cache: str) -> str:
    words = [str(program)] if isinstance(program, Path) else ["-c", program]
    done = subprocess.run(
        [sys.executable, *words, *arguments],
        env={**os.environ, "METALCORE_CACHE": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def measure() -> dict[str, float]:
    """Seconds of each cost, all in new processes with a cache folder of their own."""
    norm, elementwise = str(KERNELS / "norm.metal"), str(KERNELS / "elementwise.metal")
    costs: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        costs["first ever"] = float(_run(_FIRST_CALL, norm, cache=cache))  # builds the engine's own parts too
        costs["cached"] = float(_run(_FIRST_CALL, norm, cache=cache))
        costs |= json.loads(_run(LAUNCHES, elementwise, cache=cache))
    with tempfile.TemporaryDirectory() as cache:
        _run(_SET_UP, cache=cache)
        costs["cold"] = float(_run(_FIRST_CALL, norm, cache=cache))
    if importlib.util.find_spec("torch"):
        with tempfile.TemporaryDirectory() as cache:
            costs["first op"] = float(_run(_FIRST_OP, cache=cache))
    return costs


if __name__ == "__main__":
    started = time.perf_counter()
    print(json.dumps(measure()), f"in {time.perf_counter() - started:.1f} s")
