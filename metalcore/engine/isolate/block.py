"""`metalcore.isolate`: kernels of strangers are compiled and run in a worker process that can do little else."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from metalcore.engine import modes
from metalcore.engine.isolate import current
from metalcore.engine.locks import locks
from metalcore.engine.options import shown
from metalcore.engine.unpicklable import Unpicklable
from metalcore.errors import ArgumentError, IsolationError, UnsupportedFeature
from metalcore.launch import blocks
from metalcore.launch.device import TARGETED, block

if TYPE_CHECKING:
    from metalcore.engine.isolate.client import Server
    from metalcore.engine.isolate.sandbox import Sandbox

GUARANTEES = ("network", "files", "new files", "processes", "signals", "memory", "time")
"""What is promised of a worker, and needed unless `require` says otherwise."""
MEMORY, TIMEOUT, COMPILE_TIMEOUT = 2 << 30, 60.0, 120.0
_LEAST_MEMORY, _MOST_MEMORY = 64 << 20, 64 << 40


def _means(server: Server) -> dict[str, str]:
    """How each promise is kept on this machine; what cannot be kept is not there."""
    seccomp = ["seccomp"] if server.has_seccomp else []
    landlock = [f"landlock {server.landlock}"] if server.landlock else []
    namespace = server.has_namespaces
    scoped = [f"landlock {server.landlock}"] if server.landlock >= 6 else []
    found = {
        "network": [*seccomp, *(["network namespace"] if namespace else [])],
        "files": landlock,
        "new files": [*landlock, *seccomp] if landlock else [],
        "processes": seccomp,
        "signals": [*seccomp, *scoped, *(["process namespace"] if namespace else [])] if seccomp else [],
        "memory": ["RLIMIT_DATA", *seccomp] if seccomp else [],
        "time": ["the worker is killed"],
    }
    return {name: ", ".join(how) for name, how in found.items() if how}


class isolate(Unpicklable):
    """Context manager: what is made inside is compiled and run in a sealed worker process.

    >>> import metalcore, numpy as np
    >>> x = np.arange(4, dtype=np.float32)
    >>> with isolate(timeout=10) as isolation:
    ...     twice = metalcore.Library(
    ...         "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    ...     twice.function("twice")(x, threads=4)
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]

    A worker that dies is an IsolationError, one that takes longer than `timeout` seconds for a launch, or than
    `compile_timeout` for a compilation, an IsolationTimeout. Ordinary arrays are then as they were, and the next launch
    starts a new worker. `memory` is the most that a worker may use, in bytes. What the machine cannot enforce is an
    error, unless `require` leaves it out; `enforced` says what holds, `means` by what.
    """

    def __init__(
        self,
        *,
        memory: int = MEMORY,
        timeout: float = TIMEOUT,
        compile_timeout: float = COMPILE_TIMEOUT,
        require: Sequence[str] = GUARANTEES,
        _hook: bool = False,
    ) -> None:
        if isinstance(memory, bool) or not isinstance(memory, int) or not _LEAST_MEMORY <= memory <= _MOST_MEMORY:
            bounds = f"{_LEAST_MEMORY} (64 MiB) to {_MOST_MEMORY} (64 TiB)"
            raise ArgumentError(f"isolate: memory={shown(memory)} must be a number of bytes, {bounds}")
        for name, seconds in (("timeout", timeout), ("compile_timeout", compile_timeout)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e7:
                raise ArgumentError(f"isolate: {name}={shown(seconds)} must be a positive number of seconds, below 1e7")
        if not isinstance(require, (list, tuple, set, frozenset)) or not all(each in GUARANTEES for each in require):
            raise ArgumentError(f"isolate: require={shown(require)} must be a list of some of: {', '.join(GUARANTEES)}")
        self._memory, self._timeout, self._compile_timeout = memory, float(timeout), float(compile_timeout)
        self._require, self._hook = tuple(require), _hook
        self._sandbox: Sandbox | None = None
        self._entered = 0

    @property
    def _guard(self) -> threading.RLock:
        return locks.of(f"isolate {id(self)}")  # of a kind that a forked child has fresh

    @property
    def means(self) -> dict[str, str]:
        """What is enforced on this machine, and by what: {"network": "seccomp, network namespace", ...}."""
        from metalcore.engine.isolate.client import server

        _check_platform()
        return _means(server())

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced on this machine, of "network", "files", "new files", "processes", "signals", "memory" and
        "time"."""
        return tuple(self.means)

    @property
    def sandbox(self) -> Sandbox:
        """The workers; the first use asks whether all that is required can be enforced."""
        with self._guard:
            if self._sandbox is None:
                from metalcore.engine.isolate.sandbox import Limits, Sandbox

                missing = [name for name in self._require if name not in self.means]
                if missing:
                    raise IsolationError(
                        f"this machine cannot enforce {', '.join(repr(name) for name in missing)} "
                        f"(Linux {platform.release()}; landlock and seccomp are needed): run it where they are, or "
                        "leave them out, as in isolate(require=[...])"
                    )
                limits = Limits(self._memory, self._timeout, self._compile_timeout)
                self._sandbox = Sandbox(limits, hook=self._hook)
            return self._sandbox

    def close(self) -> None:
        """End the workers; a later launch of what was made inside starts them again."""
        with self._guard:
            if self._sandbox is not None:
                self._sandbox.close()

    def __enter__(self) -> isolate:
        sandbox = self.sandbox
        blocks.enter(self, (current.around, sandbox), (block, TARGETED))
        with self._guard:
            self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        blocks.leave(self)
        with self._guard:
            self._entered -= 1
            is_last = not self._entered
        if is_last:
            self.close()

    def __repr__(self) -> str:
        return f"<metalcore.isolate: {', '.join(f'{name} ({how})' for name, how in self.means.items())}>"


def _check_platform() -> None:
    if platform.system() != "Linux":
        raise UnsupportedFeature(
            f"isolate on {platform.system()}: seccomp and Landlock, which seal the worker, are Linux's; run it in a "
            "Linux container or virtual machine"
        )


def chosen(given: bool | isolate | None) -> Sandbox | None:
    """Where `Library(..., isolate=given)` goes: None is what holds around it, True a sandbox of its own."""
    if given is None:
        return current.current()
    if given is False:
        return None
    if given is True:
        return current.current() or isolate().sandbox
    if isinstance(given, isolate):
        return given.sandbox
    raise ArgumentError(f"isolate={given!r} must be True, False or metalcore.isolate(...)")


@contextmanager
def isolate_process(isolation: isolate) -> Iterator[isolate]:
    """Every library of every thread is isolated, unless a block of `isolate` says how."""
    before = current.process
    current.process = isolation.sandbox
    modes.settle()
    try:
        yield isolation
    finally:
        current.process = before
        modes.settle()
        isolation.close()
