"""The line on a terminal while a kernel is compiled."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from metalcore.engine.notice import name_of

# It is shown at once here, so that any compilation is long enough.
COMPILE = """
import sys, threading
import metalcore
from metalcore.engine import notice
notice.AFTER = 0.01
library = metalcore.Library("kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }",
                            isolate=len(sys.argv) > 1)
library.function("twice").check_launch(threads=32)
print([t.name for t in threading.enumerate() if "notice" in t.name], flush=True)
"""
FORK = """
import os, time
from metalcore.engine import notice
notice.AFTER = 0.2
with notice.compiling("slow"):
    time.sleep(0.5)
    child = os.fork()
assert child == 0 or os.waitpid(child, 0)[1] == 0
with notice.compiling("quick"):
    pass
os._exit(0) if child == 0 else print("done")
"""


def run(program: str, folder: Path, *words: str, term: str = "xterm") -> tuple[bytes, bytes]:
    """stdout, and what the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "METALCORE_CACHE": str(folder), "TERM": term},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    out, _ = process.communicate()
    assert process.returncode == 0, seen
    return out, seen


@pytest.mark.feature("API", "a notice on a terminal while a kernel compiles")
@pytest.mark.parametrize("words", [(), ("isolate",)], ids=["here", "isolated"])
def test_a_terminal_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    out, seen = run(COMPILE, tmp_path, *words)
    assert b"\r\x1b[Kcompiling twice ..." in seen
    assert seen.endswith(b"\r\x1b[K")  # nothing is left on the line
    assert out == b"[]\n"  # nor a thread
    _, again = run(COMPILE, tmp_path, *words)
    if not words:
        assert again == b""  # it is in the cache


def test_nobody_else_is_told(tmp_path: Path) -> None:
    assert run(COMPILE, tmp_path / "dumb", term="dumb")[1] == b""
    piped = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env={**os.environ, "METALCORE_CACHE": str(tmp_path / "pipe")},
        capture_output=True,
        check=True,
    )
    assert piped.stderr == b"" and piped.stdout == b"[]\n"


def test_a_fork_in_the_middle(tmp_path: Path) -> None:
    out, seen = run(FORK, tmp_path)
    assert out == b"done\n"
    assert seen.count(b"compiling slow ...") == 1 and b"quick" not in seen and seen.endswith(b"\r\x1b[K")


def test_names() -> None:
    assert name_of("", "/tmp/rms_norm.metal") == "rms_norm.metal"
    assert name_of('template [[host_name("half_4")]] [[kernel]] void f();', None) == "half_4"
    assert name_of("kernel void f() {}", None) == "f"
    assert name_of("int x;", None) == "a Metal source"
