"""A line on the terminal while a kernel takes long to compile: "compiling rms_norm ...". It is gone when that is done.

Only where stderr is a terminal, and not in the workers of a pool, whose parent shows what they do.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from metalcore import settings
from metalcore.engine.locks import ForkLock

AFTER = 2.0  # seconds
_CLEAR = "\r\x1b[K"
_KERNEL = re.compile(r'host_name\("([^"]+)"\)|\bkernel\b(?:\s*\]\])?\s+void\s+(\w+)')

_lock = ForkLock()
_shown: list[str] = []  # what the line names, of all threads
_inside = threading.local()  # .name: what this thread compiles; the innermost pieces are part of it
os.register_at_fork(after_in_child=_shown.clear)


def name_of(source: str, path: str | None) -> str:
    """What to call a source: its file, or the first kernel in its text.

    >>> name_of("[[kernel]] void twice(device float* x) {}", None)
    'twice'
    """
    if path is not None:
        return os.path.basename(path)
    found = _KERNEL.search(source)
    return "a Metal source" if found is None else found[1] or found[2]


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """The block compiles *name*: that is said once it has taken two seconds."""
    terminal = None if getattr(_inside, "name", None) else _terminal()
    if terminal is None:
        yield
        return
    _inside.name = name
    done, process = threading.Event(), os.getpid()

    def wait() -> None:
        if done.wait(AFTER):
            return
        with _lock:
            if not done.is_set():
                _shown.append(name)
                _draw(terminal)

    thread = threading.Thread(target=wait, name="metalcore-notice", daemon=True)
    thread.start()
    try:
        yield
    finally:
        _inside.name = None
        if os.getpid() == process:  # in a child of a fork nobody waits
            done.set()
            thread.join()
            with _lock:
                if name in _shown:
                    _shown.remove(name)
                    _draw(terminal)


def _terminal() -> int | None:
    """stderr, where it is a terminal that can clear a line."""
    processes = sys.modules.get("multiprocessing.process")
    if settings.is_dumb_terminal() or (processes is not None and processes.parent_process() is not None):
        return None
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # there is none, or something stands in its place
        return None
    return descriptor if os.isatty(descriptor) else None


def _draw(terminal: int) -> None:
    with suppress(OSError):  # a terminal that has gone away
        text = f"compiling {', '.join(_shown)} ..." if _shown else ""
        width = os.get_terminal_size(terminal).columns or 80
        os.write(terminal, (_CLEAR + text[: width - 1]).encode())
