"""How launches run: `checked` (bounds are tested, the default), `fast` (they are not), `sanitize` (all is reported)."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metalcore.engine.checks.report import Report

CHECKED, FAST, SANITIZE = "checked", "fast", "sanitize"
_current: ContextVar[str] = ContextVar("metalcore_mode", default=CHECKED)
_report: ContextVar[Any] = ContextVar("metalcore_report", default=None)

current_mode = _current.get
"""Name of the mode that a launch would run in now."""


def current_report() -> Report:
    """Where a launch in sanitize mode writes what it finds."""
    report: Report = _report.get()
    return report


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
    >>> [(f.check, f.thread) for f in report.findings]
    [('division by zero', (1, 0, 0))]
    """

    def __init__(self, name: str) -> None:
        if name not in (CHECKED, FAST, SANITIZE):
            raise ValueError(f"unknown mode {name!r}: the modes are 'checked', 'fast' and 'sanitize'")
        self.name = name
        self._tokens: list[tuple[Token[str], Token[Any]]] = []

    def __enter__(self) -> Any:
        report = None
        if self.name == SANITIZE:
            from metalcore.engine.checks.report import Report

            report = Report()
        self._tokens.append((_current.set(self.name), _report.set(report)))
        return self if report is None else report

    def __exit__(self, *error: object) -> None:
        current, report = self._tokens.pop()
        _report.reset(report)
        _current.reset(current)
