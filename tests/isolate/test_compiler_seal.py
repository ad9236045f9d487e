"""What a compiler that was taken over may do: real attempts in a process with its seal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from metalcore.engine.isolate import landlock, seccomp

ATTEMPTS = """
import ctypes, os, socket, subprocess, sys
from metalcore.engine.isolate import seal
from metalcore.engine.toolchain import zig
private, folder, secret, parent = sys.argv[1:4] + [int(sys.argv[4])]
zig()
seal.seal_compile(1 << 30, True, False, private, [folder])

def attempt(name, action):
    try:
        action()
        print("allowed", name)
    except OSError as error:
        print("refused", name)

def exchange(path, text):
    with open(path, "w") as file:
        file.write(text)

attempt("own file", lambda: exchange(private + "/new", "x"))
attempt("own folder", lambda: os.mkdir(private + "/new folder"))
attempt("include", lambda: open(folder + "/header.h").read())
attempt("compiler", lambda: subprocess.run([zig(), "version"], check=True, capture_output=True))
attempt("change an include", lambda: exchange(folder + "/header.h", "x"))
attempt("new include", lambda: exchange(folder + "/new.h", "x"))
attempt("secret", lambda: open(secret).read())
attempt("passwd", lambda: open("/etc/passwd").read())
attempt("link to a secret", lambda: os.symlink(secret, private + "/link"))
attempt("hard link", lambda: os.link(folder + "/header.h", private + "/hard"))
attempt("rename", lambda: os.rename(folder + "/header.h", private + "/moved"))
attempt("mode", lambda: os.chmod(folder + "/header.h", 0))
attempt("fifo", lambda: os.mkfifo(private + "/fifo"))
attempt("socket", lambda: socket.socket())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("program", lambda: subprocess.run(["/bin/true"], check=True))
attempt("own program", lambda: subprocess.run([private + "/new"], check=True))
attempt("signal", lambda: os.kill(parent, 0))
attempt("memory of the parent", lambda: open(f"/proc/{parent}/mem", "rb").read(1))
attempt("shell", lambda: subprocess.run("true", shell=True, check=True))
"""


@pytest.mark.skipif(landlock.version() < 6 or not seccomp.is_supported(), reason="needs Landlock 6 and seccomp")
def test_attempts(tmp_path: Path) -> None:
    private, folder = tmp_path / "private", tmp_path / "include"
    private.mkdir()
    folder.mkdir()
    (folder / "header.h").write_text("header")
    (tmp_path / "secret").write_text("secret")
    words = [str(private), str(folder), str(tmp_path / "secret"), str(os.getpid())]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ATTEMPTS), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = [line.split(" ", 1) for line in done.stdout.splitlines()]
    allowed = [name for verdict, name in said if verdict == "allowed"]
    assert allowed == ["own file", "own folder", "include", "compiler"] and len(said) == 20, done.stderr
    assert (folder / "header.h").read_text() == "header" and len(list(folder.iterdir())) == 1
