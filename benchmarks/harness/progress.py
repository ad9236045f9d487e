"""What a benchmark is doing: a bar on a terminal, else a line now and then. Nothing is silent for longer than that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_EVERY = 2.0  # seconds between two lines


class Steps(Protocol):
    def expect(self, total: int) -> None:
        """So many steps there will be."""

    def begin(self, name: str) -> None:
        """What the next steps are."""

    def done(self, name: str) -> None:
        """One step more is done."""


@dataclass
class _Bar:
    bar: Progress

    def __post_init__(self) -> None:
        self.task = self.bar.add_task("starting", total=None)

    def expect(self, total: int) -> None:
        self.bar.update(self.task, total=total)

    def begin(self, name: str) -> None:
        self.bar.update(self.task, description=name)

    def done(self, name: str) -> None:
        self.bar.update(self.task, advance=1, description=name)


class _Lines:
    def __init__(self, console: Console) -> None:
        self.console, self.start = console, time.monotonic()
        self.total, self.count, self.name = 0, 0, "starting"

    def expect(self, total: int) -> None:
        self.total = total

    def begin(self, name: str) -> None:
        self.name = name

    def done(self, name: str) -> None:
        self.count, self.name = self.count + 1, name

    def say(self) -> None:
        of = f" {self.count}/{self.total}" if self.total else ""
        self.console.print(f"{time.monotonic() - self.start:4.0f} s{of} {self.name}", highlight=False, markup=False)

    def say_until(self, end: threading.Event) -> None:
        self.say()
        while not end.wait(_EVERY):
            self.say()


@contextmanager
def steps(console: Console) -> Iterator[Steps]:
    if console.is_terminal:
        columns = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=console.stderr) as bar:
            yield _Bar(bar)
        return
    lines, end = _Lines(Console(stderr=True, width=console.width)), threading.Event()
    speaker = threading.Thread(target=lines.say_until, args=(end,), daemon=True)
    speaker.start()
    try:
        yield lines
    finally:
        end.set()
        speaker.join()
