"""Locks by name, for all stages; a forked child starts with fresh ones."""

from __future__ import annotations

import os
from threading import Lock


class _KeyLocks:
    """One lock per key, so that threads wait only for the same piece of work."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._locks: dict[str, Lock] = {}

    def of(self, key: str) -> Lock:
        with self._guard:
            return self._locks.setdefault(key, Lock())

    def reset(self) -> None:
        """In a child process nobody is left to release what other threads held."""
        self.__init__()  # type: ignore[misc]


locks = _KeyLocks()
os.register_at_fork(after_in_child=locks.reset)
