"""The workers of one isolation: a compiler for each source that is being compiled, and one that runs kernels."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from metalcore.engine.isolate import client, memory
from metalcore.engine.isolate.messages import (
    Nonsense,
    WorkerGone,
    rebuild_error,
    receive_frame,
    receive_packet,
    send_frame,
)
from metalcore.engine.options import Source
from metalcore.engine.runtime.threads import get_num_threads
from metalcore.errors import IsolationError, IsolationTimeout

if TYPE_CHECKING:
    from metalcore.engine.isolate.launches import Launcher
    from metalcore.engine.isolate.unit import IsolatedUnit

KEPT_COMPILERS = 2
_START = 60.0  # seconds that a worker may take until it is sealed
_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class Limits(NamedTuple):
    memory: int  # bytes of each worker
    timeout: float  # seconds of a launch
    compile_timeout: float  # seconds of a compilation


class Worker:
    """A process at the other end of a socket."""

    def __init__(self, kind: str, options: dict[str, Any], kind_of_socket: int) -> None:
        self._server = client.server()
        self.pid, self.link = self._server.fork(kind, options, kind_of_socket)
        self.is_alive = True

    def end(self) -> tuple[str, str]:
        """Kill it, where it is not dead; how it died."""
        if not self.is_alive:
            return "", "has ended"
        self.is_alive = False
        self.link.close()
        return client.death(self._server.end(self.pid))

    def abandon(self) -> None:
        """End it without waiting, from a finalizer, which may run anywhere: an honest worker leaves when its socket
        closes, any other is killed by the next question to the server."""
        if self.is_alive:
            self.is_alive = False
            self.link.close()
            self._server.abandoned.append(self.pid)

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self.is_alive = False
        self.link.close()


class Compiler(Worker):
    """Compiles one source, sealed with the folders of that source."""

    def __init__(self, limits: Limits, private: str, unit: IsolatedUnit) -> None:
        math_mode, float_type = unit.source.math_mode, unit.source.float_type
        options = {
            "memory": limits.memory,
            "private": private,
            "folders": unit.folders,
            "math_mode": math_mode,
            "float_type": float_type,
        }
        super().__init__("compile", options, socket.SOCK_STREAM)
        self.is_sealed = False
        self.last_used = 0.0


class Sandbox:
    """Where libraries are compiled and their kernels run. Its workers start when they are needed, after `close` too."""

    def __init__(self, limits: Limits, *, hook: bool = False) -> None:
        self.limits, self.hook = limits, hook
        self.lock = threading.RLock()
        self._launcher: Launcher | None = None
        self._compilers: weakref.WeakSet[IsolatedUnit] = weakref.WeakSet()
        self._private: str | None = None
        self._finalizer: Any = None
        _sandboxes.add(self)

    def private(self) -> str:
        """A folder for the compilers of this sandbox and nobody else, removed by `close`."""
        with self.lock:
            if self._private is None:
                self._private = tempfile.mkdtemp(prefix="metalcore-isolate-")
                for name in ("cache", "tmp"):
                    os.mkdir(os.path.join(self._private, name), 0o700)
                self._finalizer = weakref.finalize(self, _remove, self._private, os.getpid())
            return self._private

    def unit(self, source: Source) -> IsolatedUnit:
        """A source that lives here."""
        from metalcore.engine.isolate.unit import IsolatedUnit

        return IsolatedUnit(self, source)

    def compile(self, unit: IsolatedUnit, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """What the unit's compiler answers; its errors are raised here."""
        deadline = time.monotonic() + self.limits.compile_timeout
        compiler = self._compiler(unit)
        try:
            if not compiler.is_sealed:
                receive_frame(compiler.link, time.monotonic() + _START)
                compiler.is_sealed = True
            compiler.link.settimeout(None)
            send_frame(compiler.link, {**question, "source": unit.source})
            answer, blob = receive_frame(compiler.link, deadline)
            compiler.last_used = time.monotonic()
        except TimeoutError:
            compiler.end()
            raise IsolationTimeout(
                f"the source took longer to compile than {self.limits.compile_timeout:g} s, and its compiler was ended "
                "(isolate(compile_timeout=...) sets the limit)"
            ) from None
        except WorkerGone:
            name, how = compiler.end()
            raise IsolationError(
                f"the compiler in the worker {how}; its limits are {size_text(self.limits.memory)} of memory and "
                f"{self.limits.compile_timeout:g} s",
                signal=name,
            ) from None
        except Nonsense as error:
            compiler.end()
            raise IsolationError(f"the compiler in the worker gave an answer that cannot be: {error}") from None
        except BaseException:
            compiler.end()  # its answer would be taken for that of the next question
            raise
        if "error" in answer:
            try:
                raise rebuild_error(answer)
            except Nonsense as error:
                raise IsolationError(f"the compiler in the worker gave an answer that cannot be: {error}") from None
        return answer, blob

    def _compiler(self, unit: IsolatedUnit) -> Compiler:
        """The process that has this source, a new one where it has gone. Few are kept."""
        with self.lock:
            if unit.compiler is not None and unit.compiler.is_alive:
                return unit.compiler
            alive = [u for u in self._compilers if u.compiler is not None and u.compiler.is_alive and u is not unit]
            idle = [u.compiler for u in alive if u.compiler is not None and not u.is_busy]
            for old in sorted(idle, key=lambda c: c.last_used)[: max(0, len(alive) + 1 - KEPT_COMPILERS)]:
                old.end()
            unit.compiler = Compiler(self.limits, self.private(), unit)
            self._compilers.add(unit)
            return unit.compiler

    def launcher(self) -> Launcher:
        """The worker that runs kernels; the caller holds the lock."""
        from metalcore.engine.isolate.launches import Launcher

        if self._launcher is None or not self._launcher.is_alive:
            options = {"memory": self.limits.memory, "threads": get_num_threads(), "hook": self.hook}
            made = Launcher("launch", options, socket.SOCK_SEQPACKET)
            try:
                receive_packet(made.link, _START)
            except (WorkerGone, TimeoutError, Nonsense):
                how = made.end()[1]
                raise IsolationError(
                    f"the worker {how} before it was ready: {size_text(self.limits.memory)} of memory may be too little"
                ) from None
            self._launcher = made
        return self._launcher

    def close(self) -> None:
        """End the workers and remove their folder."""
        with self.lock:
            workers = [u.compiler for u in self._compilers if u.compiler is not None]
            for worker in [*workers, *([self._launcher] if self._launcher else [])]:
                with suppress(IsolationError):  # the server has gone, and they with it
                    worker.end()
            self._launcher = None
            if self._finalizer is not None:
                self._finalizer()
            self._private = self._finalizer = None

    def forget(self) -> None:
        """In a forked child: the workers and the folder are the parent's."""
        self.lock = threading.RLock()
        for unit in list(self._compilers):
            unit.forget()
        if self._launcher is not None:
            self._launcher.forget()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._launcher = self._private = self._finalizer = None

    def __del__(self) -> None:
        with suppress(Exception):
            if self._launcher is not None:
                self._launcher.abandon()


def size_text(count: int) -> str:
    return f"{count / (1 << 30):.3g} GiB"


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    client.after_fork()
    memory.known.lock = threading.RLock()
    for sandbox in list(_sandboxes):
        sandbox.forget()


os.register_at_fork(after_in_child=_after_fork)
