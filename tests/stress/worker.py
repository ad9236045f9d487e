"""The engine in a process of its own, so that a crash or an endless loop costs one kernel and not the run."""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]
Grid = tuple[int, int, int]


class Child:
    """A process that runs a module, started again where it died."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self.command, self.environment = [sys.executable, "-m", module], {**os.environ, **environment}
        self.process: subprocess.Popen[bytes] | None = None

    def started(self) -> tuple[subprocess.Popen[bytes], Any, Any]:
        """The process, what it reads and what it writes."""
        if self.process is None or self.process.poll() is not None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(self.command, cwd=ROOT, env=self.environment, **pipes)
        return self.process, self.process.stdin, self.process.stdout

    def died(self) -> str:
        assert self.process is not None
        code, self.process = self.process.wait(), None
        return f"the process died with code {code}"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Engine:
    """Sends kernels to a worker process."""

    def __init__(self, timeout: float = 300.0, keep_tests: bool = False) -> None:
        self.timeout = timeout
        self.child = Child("tests.stress.worker", {"METALCORE_KEEP_TESTS": str(int(keep_tests))})
        self.close = self.child.close

    def run(
        self, source: str, arguments: Sequence[Any], threads: Grid, group_size: Grid, mode: str = "checked"
    ) -> tuple[str, Any]:
        """("ok", arguments after the launch), ("error", text), ("crash", text) or ("hang", text)."""
        _, requests, answers = self.child.started()
        try:
            send(requests, (source, list(arguments), threads, group_size, mode))
            kind, answer = receive(answers, time.monotonic() + self.timeout)
        except (EOFError, BrokenPipeError):
            return "crash", self.child.died()
        except TimeoutError:
            self.close()
            return "hang", f"no answer in {self.timeout:.0f} s"
        return kind, answer


def send(stream: BinaryIO | Any, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO | Any, deadline: float) -> Any:
    (size,) = struct.unpack("<Q", read(stream, 8, deadline))
    return pickle.loads(read(stream, size, deadline))


def read(stream: BinaryIO | Any, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            raise TimeoutError
        part = os.read(stream.fileno(), size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def serve() -> None:
    """Runs kernels until the parent closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed goes to the error stream
    import metalcore

    while True:
        try:
            source, arguments, threads, group_size, mode = receive(sys.stdin.buffer, time.monotonic() + 1e9)
        except EOFError:
            return
        try:
            function = metalcore.Library(source).function("k")
            with metalcore.mode(mode):
                function(*arguments, threads=threads, group_size=group_size)
            send(answers, ("ok", arguments))
        except Exception as error:
            send(answers, ("error", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    serve()
