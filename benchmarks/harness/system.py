"""Costs around a kernel: a warm launch, a cold compile, the first call of a cached kernel in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
_LAUNCH = """
import sys, time
import numpy as np
import metalcore
a, b, c, out = (np.ones(32, np.float32) for _ in range(4))
tiny = metalcore.Library(sys.argv[1]).function("tiny")
samples = []
for _ in range(40):
    start = time.perf_counter()
    for _ in range(250):
        tiny(a, b, c, out, threads=32, group_size=32)
    samples.append((time.perf_counter() - start) / 250)
assert (out == 2).all()
print(sorted(samples)[len(samples) // 2])
"""


def _run(program: str, *arguments: str, cache: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
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
    with tempfile.TemporaryDirectory() as cache:
        first = float(_run(_FIRST_CALL, norm, cache=cache))  # builds the engine's own parts too
        cached = float(_run(_FIRST_CALL, norm, cache=cache))
        launch = float(_run(_LAUNCH, elementwise, cache=cache))
    with tempfile.TemporaryDirectory() as cache:
        _run(_SET_UP, cache=cache)
        cold = float(_run(_FIRST_CALL, norm, cache=cache))
    return {"launch": launch, "cold": cold, "first ever": first, "cached": cached}


if __name__ == "__main__":
    started = time.perf_counter()
    print(json.dumps(measure()), f"in {time.perf_counter() - started:.1f} s")
