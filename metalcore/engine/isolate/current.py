"""Which isolation holds now: that of the block around, or of the whole process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metalcore.engine.isolate.sandbox import Sandbox

around: ContextVar[Sandbox | None] = ContextVar("metalcore_isolation", default=None)
process: Sandbox | None = None  # where no block says otherwise, in any thread


def current() -> Sandbox | None:
    """Where a library made now would be compiled and run; None: in this process."""
    return around.get() or process


@contextmanager
def settled(sandbox: Sandbox | None) -> Iterator[None]:
    """Inside, libraries go to this sandbox; None changes nothing."""
    if sandbox is None:
        yield
        return
    token = around.set(sandbox)
    try:
        yield
    finally:
        around.reset(token)
