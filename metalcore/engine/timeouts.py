"""How long launches may take: `timeout=` of a launch, or of the block of `metalcore.mode` around it."""

from __future__ import annotations

import math
from contextvars import ContextVar
from numbers import Real

from metalcore.errors import ArgumentError, LaunchTimeout

_LONGEST = 1 << 62  # nanoseconds: what is longer never ends anyway
around: ContextVar[float | None] = ContextVar("metalcore_timeout", default=None)

timeout_around = around.get
"""Seconds that a launch here may take, None without a limit."""


def checked_seconds(timeout: object) -> float:
    """A timeout as it was given, in seconds; math.inf lifts that of the block around."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise ArgumentError(f"timeout={timeout!r} must be a number of seconds, not {type(timeout).__name__}")
    try:
        seconds = float(timeout)
    except OverflowError:
        raise ArgumentError("timeout= is a number that no float holds: math.inf is no limit") from None
    if not seconds > 0:
        raise ArgumentError(f"timeout={timeout!r} must be more than 0 seconds (math.inf: no limit)")
    return seconds


def limit_of(seconds: float | None) -> int:
    """Nanoseconds as native/launch.c takes them: 0 is no limit."""
    if seconds is None or math.isinf(seconds):
        return 0
    return max(1, round(min(seconds * 1e9, _LONGEST)))


def timed_out(kernel: str, seconds: float | None) -> LaunchTimeout:
    """The error of a launch that took too long."""
    given = "its timeout" if seconds is None else f"{seconds:g} s"
    return LaunchTimeout(
        f"kernel '{kernel}' did not end within {given} and was stopped: what it had written so far stays in its "
        "arrays. Give it a longer timeout, or look for a loop that does not end"
    )
