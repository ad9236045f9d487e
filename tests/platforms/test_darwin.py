"""What is done otherwise on macOS, as far as it can be tried out on Linux."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from metalcore.engine.process import held
from metalcore.engine.sysctl import number, sysctl


@pytest.mark.skipif(sys.platform != "linux", reason="on macOS sysctl knows more")
def test_sysctl_elsewhere() -> None:
    assert sysctl("hw.l2cachesize") == b"" and number("hw.l2cachesize") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="macOS counts processor time in another way")
def test_a_shell_that_sets_limits() -> None:
    """macOS has no prlimit: the compiler starts behind a shell."""
    busy = held(
        [sys.executable, "-c", "import sys; print(sys.argv[1], flush=True)\nwhile True: pass", "a 'b' $c"], 1, "darwin"
    )
    done = subprocess.run(busy, capture_output=True, text=True, timeout=60)
    assert done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    assert done.stdout == "a 'b' $c\n" and done.stderr == ""
    assert held(["true", "x"], 1, "linux") == ["true", "x"]
