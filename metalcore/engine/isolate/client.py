"""This process's side of the server: one for the whole process, started at the first use."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from metalcore import settings
from metalcore.engine.isolate.messages import (
    Nonsense,
    WorkerGone,
    dump,
    exchange,
    integer,
    parse,
    plain_text,
    receive_packet,
    send_packet,
)
from metalcore.engine.store.cache import disk_cache
from metalcore.errors import IsolationError

_START = (
    "import json, sys; given = json.loads(sys.argv[2]); sys.path[:] = given['path']; "
    "from metalcore.engine.isolate.server import main; main(int(sys.argv[1]), given)"
)
without: list[str] = []  # "namespaces", "landlock": for tests, as on a machine that lacks them
_PATIENCE = 120.0  # seconds for what the server itself does; precompiling headers on a busy machine is the longest
FAILED = "the server of isolated workers"


class Server:
    """Forks workers and ends them. It may be asked by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.abandoned: deque[int] = deque()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = {"path": [os.path.abspath(p) for p in sys.path], "without": without}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the server)
        disk_cache()  # raises where others could change it: in a namespace of users all look alike
        with theirs:
            if not sys.executable:
                raise IsolationError(f"{FAILED} needs a Python interpreter to start, and sys.executable names none")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, str(theirs.fileno()), json.dumps(given)],
                pass_fds=[theirs.fileno()],
                env=settings.worker_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is for this process
            )
        self._control = ours
        try:
            facts = parse(receive_packet(ours, _PATIENCE))
        except (WorkerGone, Nonsense, TimeoutError):
            self.close()
            self._said.seek(0)
            said = self._said.read()[-2000:].decode("utf-8", "replace").strip()
            raise IsolationError(f"{FAILED} did not start: {said or 'it said nothing'}") from None
        self.landlock: int = integer(facts.get("landlock"), 0, 1000)
        self.has_seccomp = facts.get("seccomp") is True
        self.has_namespaces = facts.get("namespaces") is True

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, kind: str, options: dict[str, Any], kind_of_socket: int) -> tuple[int, socket.socket]:
        """A new worker: its number, and a socket to it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind_of_socket)
        try:
            with theirs:
                answer = self._ask({"op": "fork", "kind": kind, **options}, [theirs.fileno()])
            return integer(answer.get("pid"), 1, 1 << 31), ours
        except BaseException:
            ours.close()
            raise

    def end(self, pid: int) -> int:
        """Kill a worker; its wait status, which says how it had died where it was dead already."""
        return integer(self._ask({"op": "end", "pid": pid}).get("status"), 0, 0xFFFF)

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        with self._lock:
            try:
                while self.abandoned:
                    send_packet(self._control, dump({"op": "end", "pid": self.abandoned.popleft()}))
                    receive_packet(self._control, _PATIENCE)
                answer = exchange(self._control, request, descriptors, _PATIENCE)
            except (WorkerGone, Nonsense, TimeoutError, OSError) as error:
                self.close()
                raise IsolationError(
                    f"{FAILED} has gone ({str(error) or type(error).__name__}); the next use starts one"
                ) from None
            except BaseException:  # a signal's handler raised: the answer would be taken for that of the next question
                self.close()
                raise
        if "error" in answer:
            raise IsolationError(f"{FAILED} could not start a worker: {plain_text(answer['error'])}")
        return answer

    def close(self) -> None:
        """The server sees its socket close, ends every worker and itself."""
        with suppress(OSError):
            self._control.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked child: the server is the parent's."""
        with suppress(OSError):
            self._control.close()
        self._process.returncode = 0  # not ours to wait for


_guard = threading.Lock()
_server: Server | None = None


def server() -> Server:
    """The one server, started where there is none."""
    global _server
    with _guard:
        if _server is None or not _server.is_alive:
            _server = Server()
            atexit.register(_server.close)
        return _server


def after_fork() -> None:
    """A child starts a server of its own when it needs one."""
    global _server, _guard
    _guard = threading.Lock()
    if _server is not None:
        _server.forget()
    _server = None


def death(status: int) -> tuple[str, str]:
    """How a worker died: the signal's name, or nothing; and in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            found = signal.Signals(number)
            return found.name, f"died of {found.name} ({signal.strsignal(number)})"
        except ValueError:
            return f"SIG{number}", f"died of signal {number}"
    return "", f"ended by itself with exit code {os.WEXITSTATUS(status)}"
