"""How launches run: `checked` (bounds are tested, the default), `fast` (they are not), `sanitize` (all is reported)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from metalcore.engine import coverage as covered_lines
from metalcore.engine.coverage import Coverage
from metalcore.engine.isolate import current as isolation
from metalcore.engine.model import CHECKED, FAST, SANITIZE
from metalcore.engine.options import shown
from metalcore.engine.timeouts import around as timeout_variable
from metalcore.engine.timeouts import checked_seconds, timeout_around
from metalcore.errors import ArgumentError
from metalcore.launch import blocks
from metalcore.launch.device import TARGETED, block, chosen_target

if TYPE_CHECKING:
    from metalcore.engine.checks.report import Report

_current: ContextVar[str | None] = ContextVar("metalcore_mode", default=None)
_report: ContextVar[Any] = ContextVar("metalcore_report", default=None)
process_mode: str = CHECKED  # where no block says otherwise, in any thread
process_key: str = CHECKED  # what kept launch plans are found by there
_default_report: Report | None = None


def current_mode() -> str:
    """Name of the mode that a launch would run in now."""
    return _current.get() or process_mode


def is_default() -> bool:
    """Whether neither a block nor the process has asked for a mode."""
    return _current.get() is None and process_mode == CHECKED


def is_plain_mode() -> bool:
    """Whether nothing at all has been asked for: neither a mode nor a target."""
    return block.get() is None and process_mode == CHECKED


def current_report() -> Report:
    """Where a launch in sanitize mode writes what it finds."""
    report: Report = _report.get()
    if report is None:
        assert _default_report is not None
        report = _default_report
    return report


def settle() -> None:
    """After a change to what holds for the whole process: where it is isolated, no kept plan is found."""
    global process_key
    process_key = TARGETED if isolation.process is not None or covered_lines.current is not None else process_mode


@contextmanager
def sanitize_process(report: Report) -> Iterator[Report]:
    """Every launch of every thread goes to `report`, also those in a `mode("fast")` block.

    A block of `mode("checked")` or `mode("sanitize")` stays what it says: whoever writes it wants the error, or the
    report, for itself.
    """
    global process_mode, _default_report
    before = process_mode, _default_report
    process_mode, _default_report = SANITIZE, report
    settle()
    try:
        yield report
    finally:
        process_mode, _default_report = before
        settle()


@contextmanager
def coverage() -> Iterator[Coverage]:
    """Context manager: count which lines of MSL run, in launches of every thread, but for those in sanitize mode.

    >>> import metalcore, numpy as np
    >>> source = "kernel void k(device int* x, uint i [[thread_position_in_grid]]) {\\n  if (x[i])\\n    x[i] = 7;\\n}"
    >>> with metalcore.coverage() as covered:
    ...     metalcore.Library(source).function("k")(np.zeros(3, np.int32), threads=3)
    >>> covered.files
    {'<metal> k': {1: 3, 2: 3, 3: 0, 4: 3}}
    """
    before, covered_lines.current = covered_lines.current, Coverage()
    settle()
    blocks.enter(covered_lines.current, (block, TARGETED))
    try:
        yield covered_lines.current
    finally:
        blocks.leave(covered_lines.current)
        covered_lines.current = before
        settle()


class mode:
    """Context manager: launches inside run in the given mode, in this thread or task alone.

    >>> with mode("fast"):
    ...     current_mode()
    'fast'
    >>> current_mode()
    'checked'

    `with mode("sanitize") as report:` collects what the checks find instead of raising it:

    >>> import metalcore, numpy as np
    >>> source = "kernel void k(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 7 / x[i]; }"
    >>> with mode("sanitize") as report:
    ...     metalcore.Library(source).function("k")(np.array([1, 0, 2], np.int32), threads=3)
    >>> [(f.kind, f.thread) for f in report.findings]
    [('division-by-zero', (1, 0, 0))]

    `schedule_seed` runs simdgroups and threadgroups in a random order that the seed repeats; `also` names kinds of
    findings that are off unless asked for, `silence` kinds to leave out; `fail_fast` raises SanitizerError after the
    first launch with a finding.

    `timeout` is the most seconds that each launch inside may take; LaunchTimeout says which one took longer. Without a
    name the mode stays as it is: `with mode(timeout=5):`. A block inside another one keeps the outer's timeout unless
    it has one itself; math.inf lifts it.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        schedule_seed: int | None = None,
        also: Sequence[str] = (),
        silence: Sequence[str] = (),
        fail_fast: bool = False,
        timeout: float | None = None,
    ) -> None:
        if name is None and timeout is None:
            raise ValueError("mode() needs a name ('checked', 'fast' or 'sanitize') or a timeout")
        if name not in (CHECKED, FAST, SANITIZE, None):
            raise ValueError(f"unknown mode {name!r}: the modes are 'checked', 'fast' and 'sanitize'")
        if name != SANITIZE and (schedule_seed is not None or also or silence or fail_fast):
            raise ValueError(f"schedule_seed, also, silence and fail_fast are for mode 'sanitize', not {name!r}")
        for label, kinds in (("also", also), ("silence", silence)):
            if not isinstance(kinds, (list, tuple, set, frozenset, str)):  # Report has words for a str
                raise ArgumentError(f"mode: {label}={shown(kinds)} must be a list of kinds of findings")
        self.name = name
        self.timeout = None if timeout is None else checked_seconds(timeout)
        self._options = {"schedule_seed": schedule_seed, "also": also, "silence": silence, "fail_fast": fail_fast}
        if name == SANITIZE:
            self._new_report()  # names that do not exist show here

    def _new_report(self) -> Report:
        from metalcore.engine.checks.report import Report

        return Report(**self._options)  # type: ignore[arg-type]

    def __enter__(self) -> Any:
        report = self._new_report() if self.name == SANITIZE else None
        name = SANITIZE if self.name == FAST and process_mode == SANITIZE else self.name or _current.get()
        seconds = self.timeout or timeout_around()
        is_special = chosen_target() or isolation.current() is not None or covered_lines.current is not None
        # Launches find their plans at once by this key, and then do not ask for a timeout.
        key = TARGETED if is_special else name if seconds is None else f"{name} with a timeout"
        kept = _report.get() if self.name is None else report
        blocks.enter(self, (_current, name), (_report, kept), (block, key), (timeout_variable, seconds))
        return self if report is None else report

    def __exit__(self, *error: object) -> None:
        blocks.leave(self)
