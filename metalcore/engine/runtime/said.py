"""Launches of kernels that say something: lines of os_log in the order of the threads, assertions as errors."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metalcore import settings
from metalcore.engine import coverage
from metalcore.engine.model import ASSERTION, COVERED, LOG, Place
from metalcore.engine.printf import conversions, formatted, number
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.faults import launched, thread_position
from metalcore.errors import AssertionFault

if TYPE_CHECKING:
    from metalcore.engine.runtime.launch import Plan, Shape

_MOST_SAYINGS = 1 << 16
_MOST_TEXT = 1 << 26  # characters of a launch


@dataclass(frozen=True)
class LogLine:
    """What one thread said by os_log."""

    kernel: str
    file: str
    line: int
    column: int
    level: str  # "default", "debug", "info", "error" or "fault"
    thread: tuple[int, int, int]  # position in the grid
    text: str

    def __str__(self) -> str:
        level = "" if self.level == "default" else f" [{self.level}]"
        return f"{self.file}:{self.line}:{level} thread {self.thread}: {self.text}"


_listeners: ContextVar[tuple[list[LogLine], ...]] = ContextVar("listeners", default=())


@contextmanager
def captured_log() -> Iterator[list[LogLine]]:
    """Keep what kernels say by os_log, as a list of `LogLine`, instead of writing it to stderr.

    >>> import metalcore
    >>> say = metalcore.Library('''
    ... kernel void say(uint i [[thread_position_in_grid]]) { metal::os_log_default.log("%u", i * i); }
    ... ''').function("say")
    >>> with metalcore.captured_log() as lines:
    ...     say(threads=3)
    >>> [line.text for line in lines]
    ['0', '1', '4']
    """
    lines: list[LogLine] = []
    token = _listeners.set((*_listeners.get(), lines))
    try:
        yield lines
    finally:
        _listeners.reset(token)


def said_by(plan: Plan, call: Callable[[], int]) -> Callable[[int, int], int]:
    """A launch in this process whose threads speak to an address."""

    def run(address: int, size: int) -> int:
        outer = plan.say_to(address)
        try:
            return call()
        finally:
            plan.say_to(outer)

    return run


def listen(kernel: str, plan: Plan, run: Callable[[int, int], int], most: int = _MOST_SAYINGS) -> int:
    """Run a launch, show what its threads said, and raise where an assertion did not hold. The launch's status."""
    with plan.lock:  # it has room for one launch's findings
        plan.forget_findings()
        status = hear(kernel, plan, run, most)
        findings = list((layout.Finding * len(plan.findings)).from_buffer_copy(bytes(plan.findings)))
    if coverage.current is not None:
        _count_lines(coverage.current, kernel, plan, findings)
    if not status:
        _assert(kernel, plan, findings)
    return status


def hear(kernel: str, plan: Plan, run: Callable[[int, int], int], most: int = _MOST_SAYINGS) -> int:
    """Run a launch and show what its threads said; `run` gets the address and the size of a `Said`."""
    with mmap.mmap(-1, layout.size_of_sayings(most)) as memory:  # what is not written takes no memory
        said = layout.Said.from_buffer(memory)
        said.capacity = most
        try:
            with plan.lock:  # there is one place that says where to speak to
                status = run(ctypes.addressof(said), len(memory))
            count = said.count
        finally:
            del said  # the map cannot be closed while somebody looks at it
        lines, is_all = _lines(kernel, plan, memory, min(count, most))
    _show(kernel, lines, count > most or not is_all)
    return status


def _lines(kernel: str, plan: Plan, memory: mmap.mmap, count: int) -> tuple[list[LogLine], bool]:
    """The lines of so many sayings, and whether they are all."""
    size, start = ctypes.sizeof(layout.Saying), ctypes.sizeof(layout.Said)
    places = plan.kernel.native.places
    waiting: dict[tuple[int, ...], list[layout.Saying]] = {}
    lines: list[LogLine] = []
    text = 0
    for i in range(count):
        if text > _MOST_TEXT:
            break
        saying = layout.Saying.from_buffer_copy(memory, start + i * size)
        # Simdgroups on other processors speak in between.
        own = waiting.setdefault((*saying.group, saying.first_thread), [])
        own.append(saying)
        wanted = sum(c.count for c in conversions(places[own[0].place].detail))
        if len(own) == wanted + 1:
            spoken = list(_spoken(kernel, plan.shape, places, own))
            text += sum(len(line.text) for line in spoken)
            lines += spoken
            own.clear()
    lines.sort(key=lambda line: line.thread[::-1])  # a thread's own lines stay as they came
    return lines, text <= _MOST_TEXT


def _spoken(kernel: str, shape: Shape, places: Sequence[Place], sayings: Sequence[layout.Saying]) -> Iterator[LogLine]:
    """The line of each lane."""
    first, *rest = sayings
    place = places[first.place]
    where = layout.Finding()
    where.group[:] = tuple(first.group)
    for lane in range(layout.LANES):
        if first.lanes >> lane & 1:
            where.thread_index = first.first_thread + lane
            values = [number(places[s.place].check, s.values[lane]) for s in rest]
            text = formatted(place.detail, values)
            level = place.check.removeprefix(LOG)
            position = thread_position(where, shape)
            yield LogLine(kernel, place.file, place.line, place.column, level, position, text)


def _count_lines(
    covered: coverage.Coverage, kernel: str, plan: Plan, findings: Sequence[layout.Finding]
) -> None:
    for finding, place in zip(findings, plan.kernel.native.places, strict=True):
        if place.check == COVERED:
            file = f"{place.file} {kernel}" if place.file.startswith("<") else place.file  # text without a file
            covered.add(file, place.line, finding.count)


def _show(kernel: str, lines: list[LogLine], is_more: bool) -> None:
    if listeners := _listeners.get():
        listeners[-1].extend(lines)
    else:
        most = settings.log_lines()
        for line in lines[:most]:
            print(line, file=sys.stderr)
        if len(lines) > most:
            left = f"{len(lines) - most:,} more lines of os_log"
            print(f"kernel '{kernel}': {left} (METALCORE_LOG_LINES={most})", file=sys.stderr)
    if is_more:
        print(f"kernel '{kernel}': it had more to say by os_log than is kept of a launch", file=sys.stderr)


def _assert(kernel: str, plan: Plan, findings: Sequence[layout.Finding]) -> None:
    broken = [
        (finding, place)
        for finding, place in zip(findings, plan.kernel.native.places, strict=True)
        if finding.count and place.check == ASSERTION
    ]
    if not broken:
        return
    finding, place = broken[0]
    count = sum(f.count for f, _ in broken)
    more = f"; {count - 1} more in this launch" if count > 1 else ""
    raise AssertionFault(
        f"kernel '{kernel}': assertion failed at {place.file}:{place.line} by thread "
        f"{thread_position(finding, plan.shape)} of the grid: {place.detail}{more}{launched()}"
    )
