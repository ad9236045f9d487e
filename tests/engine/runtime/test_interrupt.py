"""Ctrl-C stops a kernel that loops for ever and leaves the process as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
sys.path.insert(0, {here!r})
import numpy as np
import metalcore
from hand_kernels import argument, function

case, folder, cpu_threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
metalcore.set_num_threads(cpu_threads)
BODY = "KERNEL {{ volatile int* out = L->buffers[0]; while (!*L->stop) out[0] = 1; }}"
endless = function(folder, "endless", BODY, (argument("out", 0, "int32"),))
COUNT = "KERNEL {{ EACH_THREAD {{ ((int*)L->buffers[0])[X] = X; }} }}"
count = function(folder, "count", COUNT, (argument("out", 0, "int32"),))
out = np.zeros(4096, np.int32)
count(out, threads=4096, group_size=64)
heard = []
if case == "own handler":
    signal.signal(signal.SIGINT, lambda *a: heard.append(a[0]))
if case == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)

def press():
    while out[0] != 1:
        time.sleep(0.01)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
    if case == "ignored":
        time.sleep(0.2)
        os._exit(7)

threading.Thread(target=press, daemon=True).start()
out[:] = 0
if case == "other thread":
    seen = []
    def run():
        try:
            endless(out, threads=4096, group_size=64)
        except KeyboardInterrupt:
            seen.append("stopped")
    worker = threading.Thread(target=run)
    worker.start()
    deadline = time.time() + 20
    while not seen and time.time() < deadline:
        try:
            time.sleep(0.02)
        except KeyboardInterrupt:
            pass
    assert seen == ["stopped"], seen
else:
    try:
        endless(out, threads=4096, group_size=64)
    except KeyboardInterrupt:
        print("interrupted")
    else:
        sys.exit("not interrupted")
if case == "own handler":
    assert heard == [signal.SIGINT], heard
count(out, threads=4096, group_size=64)
assert (out == np.arange(4096)).all()
if case == "plain":  # Python's own handling still works after a launch
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        sys.exit("lost the signal")
    except KeyboardInterrupt:
        pass
print("done")
"""


def _run(case: str, folder: Path, cpu_threads: int) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(here=str(Path(__file__).parent))
    command = [sys.executable, "-c", program, case, str(folder), str(cpu_threads)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ}, check=False)


@pytest.mark.parametrize("cpu_threads", [1, 2])
@pytest.mark.parametrize("case", ["plain", "own handler", "other thread"])
def test_ctrl_c_stops_an_endless_kernel(tmp_path: Path, case: str, cpu_threads: int) -> None:
    done = _run(case, tmp_path, cpu_threads)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


def test_a_program_that_ignores_ctrl_c_is_not_stopped(tmp_path: Path) -> None:
    assert _run("ignored", tmp_path, 1).returncode == 7


def test_the_signal_is_the_one_that_ctrl_c_sends() -> None:
    assert signal.SIGINT == 2  # native/os.h says so too
