"""Launches on torch's OpenMP threads: each case in a process of its own, which counts its threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")

BEGIN = """
import os, torch, metalcore
def threads(): return len(os.listdir("/proc/self/task"))
def right():
    x = torch.linspace(-8, 8, 1 << 20)
    return torch.allclose(metalcore.silu(x), torch.nn.functional.silu(x), atol=1e-5)
torch.set_num_threads(2)
metalcore.set_num_threads({count})
torch.ones(1 << 20).exp()  # OpenMP starts its threads
before = threads()
"""


def result(count: int, code: str) -> str:
    script = BEGIN.format(count=count) + code
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_thread_is_added() -> None:
    assert result(2, "print(right(), right(), threads() - before)") == "True True 0"


def test_more_threads_than_torch_has_are_our_own() -> None:
    assert result(3, "print(right(), right(), threads() - before)") == "True True 2"


def test_after_a_fork() -> None:
    """OpenMP's threads do not live on in the child: waiting for them would never end."""
    code = """
x = torch.linspace(-8, 8, 1 << 20)
expected = metalcore.silu(x).numpy()
child = os.fork()
if child == 0:  # torch's own parallel ops would hang here
    os._exit(0 if (metalcore.silu(x).numpy() == expected).all() else 1)
print(os.waitpid(child, 0)[1], right())
"""
    assert result(2, code).splitlines()[-1] == "0 True"


def test_threads_of_python_at_once() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(lambda _: right(), range(16))))
"""
    assert result(2, code) == "True"
