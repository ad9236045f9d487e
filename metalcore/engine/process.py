"""One run of a tool of the ziglang wheel, held to limits: processor time, memory, and the size of what it says."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metalcore import settings
from metalcore.errors import CompileError
from metalcore.forking import import_whole, temporary_folder, unforked

if TYPE_CHECKING:
    import subprocess

_MESSAGES = 1 << 20  # bytes of diagnostics that are read
_FILE = 1 << 30  # bytes of a file that it may write
_SLACK = 8  # times the processor time that may pass, on a machine that is busy with other things
_NO_MEMORY = ("out of memory", "bad_alloc", "Cannot allocate memory", "OutOfMemory")


@dataclass(frozen=True)
class Result:
    """What one run of clang gave: its exit code, its output and its diagnostics."""

    code: int
    output: str
    errors: str


@dataclass(frozen=True)
class Raw:
    """What one run of a tool gave, its output as bytes."""

    code: int
    output: bytes
    errors: str

    def text(self) -> Result:
        return Result(self.code, self.output.decode("utf-8", "replace"), self.errors)


def run_limited(
    command: Sequence[str], text: str, folder: str, most: int, limit: str, extra: Mapping[str, bytes] | None = None
) -> Raw:
    """Run *command* with *text* on its standard input, without the user's environment (CPATH adds folders).

    *folder* is empty and for this run alone; *extra* are files to write into it first. More than *most* bytes of output
    are a CompileError that says *limit*.
    """
    import_whole("subprocess")  # kept out of the import of the package, which must be quick
    import subprocess
    import threading

    for name, data in {"stdin": text.encode(), **(extra or {})}.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    said = os.path.join(folder, "stderr")
    seconds, memory = settings.compile_seconds(), settings.compile_memory()
    with open(os.path.join(folder, "stdin"), "rb") as given, open(said, "wb") as errors:
        environment = settings.system_environment()
        with unforked():  # a child that another thread forks would hold an end of the pipe
            process = subprocess.Popen(
                held(command, seconds), stdin=given, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment
            )
    # It has nothing but the text to work on, so a limit that comes a moment late is early enough.
    _limit(process, seconds, memory)
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    watch = threading.Timer(_SLACK * seconds, stop)
    watch.daemon = True
    watch.start()
    output = bytearray()
    try:
        assert process.stdout is not None
        while chunk := process.stdout.read1(1 << 20):  # type: ignore[attr-defined]
            output += chunk
            if len(output) > most:
                raise CompileError(limit)
        process.wait()
    finally:
        watch.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    with open(said, "rb") as written:
        messages = written.read(_MESSAGES).decode("utf-8", "replace")
    _check_limits(process.returncode, messages, late.is_set(), seconds, memory)
    if process.returncode < 0 and not messages.strip():
        name = signal.Signals(-process.returncode).name
        messages = f"it ended with {name}: expressions or declarations that are nested too deeply can do that"
    return Raw(process.returncode, bytes(output), messages)


def held(command: Sequence[str], seconds: int, system: str = sys.platform) -> list[str]:
    """The command, which on macOS starts behind a shell that sets its limits: nothing else can, between a fork and a
    program, while other threads run. macOS enforces no limit of memory."""
    if system != "darwin":
        return list(command)
    limits = {"c": 0, "f": _FILE // 512, "t": seconds}  # a lower one that holds already stays
    given = "".join(f"ulimit -{name} {value} 2>/dev/null; " for name, value in limits.items())
    return ["/bin/sh", "-c", given + 'exec "$0" "$@"', *command]


def _limit(process: subprocess.Popen[bytes], seconds: int, memory: int) -> None:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_FSIZE, getrlimit, prlimit
    except ImportError:  # macOS: `held` has done it
        return
    limits = {RLIMIT_CPU: (seconds, seconds + 5), RLIMIT_AS: (memory, memory)}
    limits |= {RLIMIT_CORE: (0, 0), RLIMIT_FSIZE: (_FILE, _FILE)}
    for kind, wanted in limits.items():
        own = getrlimit(kind)  # what this process is held to, its tools are held to as well
        soft, hard = (w if o == RLIM_INFINITY else min(w, o) for w, o in zip(wanted, own, strict=True))
        with contextlib.suppress(OSError, ValueError):  # it is gone already, or the system does not let us
            prlimit(process.pid, kind, (soft, hard))


def _check_limits(code: int, messages: str, late: bool, seconds: int, memory: int) -> None:
    """Raise where the run ended because of a limit, and not because of the text's meaning."""
    if late or code in (-signal.SIGXCPU, -signal.SIGKILL):
        raise CompileError(
            f"the compiler needed more than {seconds} s for this source and was stopped; "
            "METALCORE_COMPILE_SECONDS raises the limit"
        )
    if code != 0 and any(word in messages for word in _NO_MEMORY):
        raise CompileError(
            f"the compiler needed more than {memory // 1_000_000} MB for this source and was stopped; "
            "METALCORE_COMPILE_MEMORY raises the limit"
        )


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder that only this user can enter, removed at the end."""
    import shutil

    folder = temporary_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
