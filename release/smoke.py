"""Tries an installed wheel; needs nothing of the repository.   scripts/test-wheel FILE

Every program runs in an empty HOME of its own. Times are of the best of five runs. The limits are held in seconds of a
processor, which do not depend on what else the machine does; the clock's are printed beside them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORT_SECONDS, FIRST_SECONDS = 0.1, 0.5  # the second is of the whole process, from Python's start on
IMPORT = """
import time
begin, used = time.perf_counter(), time.process_time()
import metalcore
print(time.perf_counter() - begin, time.process_time() - used)
"""
FIRST = """
import sys, time
begin = time.perf_counter()
import numpy as np
import metalcore
x, w = np.random.default_rng(0).standard_normal((4, 768)).astype(np.float32), np.full(768, 2, np.float32)
called, used = time.perf_counter(), time.process_time()
y = metalcore.rms_norm(x, (768,), w, eps=1e-6)
end = time.perf_counter()
print(end - called, time.process_time() - used, end - begin, time.process_time())
assert np.allclose(y, 2 * x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6), atol=1e-5)
compilers = [name for name in sys.modules if name.startswith(("llvmlite", "metalcore.engine.frontend", "ziglang"))]
assert not compilers, f"something was compiled: {compilers}"
"""
SAXPY = """
import numpy as np
import metalcore
source = '''#include <metal_stdlib>
using namespace metal;
kernel void saxpy(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant float& a [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) { y[i] = a * x[i] + y[i]; }'''
x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
metalcore.Library(source).function("saxpy")(x, y, 2.0, threads=1000, group_size=256)
assert (y == 2 * x + 1).all()
try:
    metalcore.Library(source).function("saxpy")(x[:999], y, 2.0, threads=1000, group_size=256)
except metalcore.errors.KernelFault as fault:
    assert "saxpy" in str(fault)
else:
    raise AssertionError("a read out of bounds was not caught")
"""
RACE = """
#include <metal_stdlib>
using namespace metal;
kernel void race(device float* y, uint i [[thread_position_in_grid]], uint n [[threads_per_grid]]) {
  y[i] = i;
  y[n - 1 - i] += 1;
}
"""


def run(*words: str, expected: int = 0) -> str:
    """A program of the environment, in an empty HOME."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, env=environment, cwd=home, capture_output=True, text=True, check=False)
        if done.returncode != expected:
            raise SystemExit(f"{' '.join(words)[:200]}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def best(program: str) -> list[float]:
    """The least of five runs, by the last number that each prints."""
    runs = [[float(word) for word in run(sys.executable, "-c", program).split()] for _ in range(5)]
    return min(runs, key=lambda numbers: numbers[-1])


def main() -> None:
    command = str(Path(sys.executable).with_name("metalcore"))
    print(run(command, "--version").strip())
    package = Path(run(sys.executable, "-c", "import metalcore; print(metalcore.__file__)").strip()).parent
    clock, used = best(IMPORT)
    print(f"import metalcore: {clock * 1e3:.0f} ms, {used * 1e3:.0f} ms of a processor")
    assert used <= IMPORT_SECONDS, f"more than {IMPORT_SECONDS} s"
    call, call_used, clock, used = best(FIRST)
    print(f"first rms_norm in an empty HOME: {call * 1e3:.0f} ms, {call_used * 1e3:.0f} ms of a processor")
    print(f"  the whole process, with NumPy's import: {clock * 1e3:.0f} ms, {used * 1e3:.0f} ms of a processor")
    assert used <= FIRST_SECONDS, f"more than {FIRST_SECONDS} s"
    run(sys.executable, "-c", SAXPY)
    print("a kernel compiled and run, and a read out of bounds caught")
    assert "caught" in run(command, "demo", "--quick")
    print("metalcore demo")
    example = package / "examples" / "exact_dot.py"
    assert run(sys.executable, str(example), "--width", "1000").strip()
    print(f"python {example.relative_to(package.parent)}")
    saxpy = str(package / "examples" / "saxpy.metal")
    words = ("saxpy", "arange:float32:64", "ones:float32:64", "2.5", "--threads", "64", "--sanitize")
    run(command, "run", saxpy, *words)
    with tempfile.TemporaryDirectory() as folder:
        race = Path(folder, "race.metal")
        race.write_text(RACE)
        report = run(command, "run", str(race), "race", "zeros:float32:64", "--threads", "64", "--sanitize", expected=1)
    assert "race" in report, report
    print("the sanitizer: nothing in saxpy, a race found where one is")
    run(command, "doctor")
    print("metalcore doctor")


if __name__ == "__main__":
    main()
