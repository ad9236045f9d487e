"""Hostile launches in a process of their own: a crash costs one launch, and a hang is ended."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hostile import tree as h
from tests.hostile.case import MODES, Host, Verdict, expect, run
from tests.hostile.generate import generate
from tests.hostile.guarded import Pages
from tests.hostile.make_launch import make_launch
from tests.hostile.oracle import Redraw
from tests.hostile.printer import msl
from tests.hostile.shape import Launch
from tests.stress.worker import Child, receive, send

Result = tuple[int, str, bool, Verdict]  # number of the launch, mode, whether all accesses are in bounds, verdict


class Worker:
    """The parent's end. `environment` is added to the process's own."""

    def __init__(self, timeout: float = 60.0, environment: dict[str, str] | None = None) -> None:
        self.timeout, self.child = timeout, Child("tests.hostile.worker", environment or {})
        self.close = self.child.close

    def ask(self, request: Any) -> Iterator[Any]:
        """The messages that answer a request. ("crash", text) or ("hang", text) is the last one of a lost process."""
        process, requests, answers = self.child.started()
        try:
            send(requests, request)
            while True:
                message = self.wait(process, answers)
                yield message
                if message[0] == "end":
                    return
        except (EOFError, BrokenPipeError):
            yield "crash", self.child.died()
        except TimeoutError:
            self.close()
            yield "hang", f"no answer in {self.timeout:.0f} s of processor time"

    def wait(self, process: subprocess.Popen[bytes], answers: Any) -> Any:
        """The next message. A hang is counted in seconds of the processor: the machine may be busy with other things.
        Without any work done it is ten times as long."""
        start, used = time.monotonic(), processor_time(process.pid)
        while not select.select([answers], [], [], 1.0)[0]:
            if process.poll() is not None:
                raise EOFError
            late = time.monotonic() - start > 10 * self.timeout
            if late or processor_time(process.pid) - used > self.timeout:
                raise TimeoutError
        return receive(answers, time.monotonic() + 60)

    def seed(self, seed: int, launches: int, modes: tuple[str, ...]) -> Iterator[Result]:
        """Every launch of one kernel in every mode. What crashes is noted, and the rest goes on in a new process."""
        done: set[tuple[int, str]] = set()
        while True:
            at: tuple[int, str, bool] = (-1, "compile", True)
            lost = ""
            for message in self.ask(("seed", seed, launches, modes, frozenset(done))):
                if message[0] == "start":
                    at = message[1:]
                    done.add(at[:2])
                elif message[0] == "verdict":
                    yield (*at, message[1])
                elif message[0] in ("crash", "hang"):
                    lost = message[0]
                    yield (*at, Verdict(*message))
            if not lost or at[1] == "compile":
                return

    def case(self, kernel: h.Kernel, launch: Launch, mode: str) -> Verdict:
        verdict = Verdict("invalid")
        for message in self.ask(("case", kernel, launch, mode)):
            if message[0] == "verdict":
                verdict = message[1]
            elif message[0] in ("crash", "hang"):
                verdict = Verdict(*message)
        return verdict


def processor_time(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def applies(kernel: h.Kernel, mode: str, outside: bool) -> bool:
    """In fast mode nothing is promised for what leaves its arrays."""
    return mode != "fast" or not (outside or kernel.undefined)


def compiled(kernel: h.Kernel) -> Any:
    import metalcore

    return metalcore.Library(msl(kernel)).function("k", dict(kernel.constants))


def answer(request: Any, pages: Pages) -> Iterator[Any]:
    if request[0] == "case":
        _, kernel, launch, mode = request
        pages.release()
        host = Host(kernel, launch, pages)
        try:
            expected = expect(kernel, launch, host)
            if applies(kernel, mode, bool(expected.outside)):
                yield "verdict", run(compiled(kernel), kernel, launch, host, expected, mode)
        except (Redraw, KeyError, IndexError):
            pass
        except Exception as error:
            yield "verdict", Verdict("error", f"{type(error).__name__}: {error}")
        return
    _, seed, launches, modes, done = request
    kernel = generate(seed)
    try:
        function = compiled(kernel)
    except Exception as error:
        yield "verdict", Verdict("error", f"{type(error).__name__}: {error}")
        return
    for number in range(launches):
        if all((number, mode) in done for mode in modes):
            continue
        made = make_launch(kernel, number, pages)
        if made is None:
            continue
        launch, host, expected = made
        for mode in modes:
            if (number, mode) not in done and applies(kernel, mode, bool(expected.outside)):
                yield "start", number, mode, not expected.outside
                yield "verdict", run(function, kernel, launch, host, expected, mode)


def serve() -> None:
    """Answers requests until the parent closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed goes to the error stream
    pages = Pages()
    while True:
        try:
            request = receive(sys.stdin.buffer, time.monotonic() + 1e9)
        except EOFError:
            return
        for message in answer(request, pages):
            send(answers, message)
        send(answers, ("end",))


__all__ = ["MODES", "Result", "Worker"]

if __name__ == "__main__":
    serve()
