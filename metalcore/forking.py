"""fork while other threads compile: what must not be cut in two is finished first, and a child starts with free locks.

LLVM, the loader of shared objects and Python's imports have locks and half-built state of their own, which nobody in a
child process would ever finish. Code that is inside them says so with `unforked()`, and a fork of another thread waits
for its end. Compiling goes on through many such pieces with chances to fork between them; what clang takes is none.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import subprocess

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Gate:
    """Any number of threads may be inside; a fork waits until none is but its own, and lets none in meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # reentrant: a signal's handler may come in here too
        self._inside: dict[int, int] = {}  # thread -> how deep
        self._forking: int | None = None

    def enter(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._forking not in (None, me) and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def leave(self) -> None:
        me = threading.get_ident()
        with self._changed:
            depth = self._inside.pop(me, 1) - 1
            if depth:
                self._inside[me] = depth
            else:
                self._changed.notify_all()

    def close(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._forking is not None:
                self._changed.wait()
            self._forking = me
            while any(thread != me for thread in self._inside):
                self._changed.wait()

    def open(self) -> None:
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def reset(self) -> None:
        """In a child process: only this thread is left."""
        me = threading.get_ident()
        own = self._inside.get(me)
        self.__init__()  # type: ignore[misc]
        if own:
            self._inside[me] = own


_gate = _Gate()
os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.reset)


@contextmanager
def unforked() -> Iterator[None]:
    """No other thread forks meanwhile. Take no lock inside that is held around this anywhere else."""
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


def temporary_folder() -> str:
    """A new one. `tempfile` takes a lock at first, which a child that is forked meanwhile would wait for for ever."""
    import tempfile

    with unforked():
        return tempfile.mkdtemp(prefix="metalcore-")


class UnforkedLock:
    """A lock that is free in every child process: whoever has it is `unforked`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of a signal may compile in the middle of a compilation

    def __enter__(self) -> None:
        _gate.enter()
        try:
            self._lock.acquire()
        except BaseException:  # Ctrl-C while it waited
            _gate.leave()
            raise

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        _gate.leave()

    def around(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """A function that is called under the lock, and whose objects are also freed under it."""

        @wraps(function)
        def locked(*args: _P.args, **named: _P.kwargs) -> _T:
            with self:
                return function(*args, **named)

        return locked


@cache
def import_whole(*modules: str) -> None:
    """Import modules so that no child process finds one half imported by a thread that it does not have."""
    with unforked():
        for module in modules:
            importlib.import_module(module)


def run_process(command: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, without input."""
    import_whole("subprocess")
    import subprocess

    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    with unforked():  # until the program has its ends of the pipes, and nobody else
        process = subprocess.Popen(command, env=env, stdin=none, stdout=pipe, stderr=pipe)
    with process:
        try:
            output, errors = process.communicate()
        except BaseException:  # Ctrl-C among them
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
