"""Locks for all stages; a forked child, which has one thread, starts with free ones."""

from __future__ import annotations

import os
from threading import RLock
from weakref import WeakSet


class _KeyLocks:
    """One lock per key, so that threads wait only for the same piece of work. They are reentrant: a signal's handler
    runs in the thread that it interrupts, and may ask for the very same work."""

    def __init__(self) -> None:
        self._guard = RLock()
        self._locks: dict[str, RLock] = {}

    def of(self, key: str) -> RLock:
        with self._guard:
            return self._locks.setdefault(key, RLock())

    def reset(self) -> None:
        """In a child process nobody is left to release what other threads held."""
        self.__init__()  # type: ignore[misc]


class ForkLock:
    """A reentrant lock that a child process finds free, unless the very thread that forked has it."""

    _all: WeakSet[ForkLock] = WeakSet()

    def __init__(self) -> None:
        self._lock = RLock()
        ForkLock._all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @classmethod
    def reset_all(cls) -> None:
        for each in list(cls._all):
            if not each._lock._is_owned():  # type: ignore[attr-defined]
                each._lock = RLock()


locks = _KeyLocks()
os.register_at_fork(after_in_child=locks.reset)
os.register_at_fork(after_in_child=ForkLock.reset_all)
