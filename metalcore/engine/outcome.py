"""What a launch answers where it did not end well, as an error."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from metalcore.engine.model import Argument
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.launch import Plan
from metalcore.engine.runtime.native_library import raise_again, runtime_library
from metalcore.engine.timeouts import timed_out
from metalcore.errors import LaunchError, MetalcoreError


def raise_outcome(
    name: str,
    arguments: Sequence[Argument],
    status: int,
    plan: Plan,
    timeout: float | None,
    error: layout.Error | None,
) -> None:
    """The error for a status of the runtime; `error` is what the launch noted, this thread's last one by default."""
    if status & layout.RAISED:
        raise_again()
    if status & layout.TIMED_OUT:
        raise timed_out(name, timeout)
    if status & layout.STOPPED:
        raise MetalcoreError(f"kernel '{name}' was under way when a signal's handler forked this process")
    if status & layout.NO_MEMORY:
        raise MemoryError(f"kernel '{name}': no memory for its threadgroups")
    if status & layout.APART:
        raise LaunchError(
            f"kernel '{name}': simdgroups of a threadgroup came to different barriers, because one wrote what "
            "another read to choose its way: put a barrier between the two"
        )
    if not status & (layout.FAULT | layout.TOO_SMALL):
        raise MetalcoreError(f"kernel '{name}': the runtime answered {status}")
    from metalcore.engine.runtime.faults import fault, too_small

    shape = plan.shape
    if error is None:
        error = layout.Error()
        runtime_library().mc_last_error(ctypes.byref(error))
    if status & layout.TOO_SMALL:
        raise too_small(name, error, arguments)
    kernel = plan.kernel if error.group[0] < shape.grid[0] // shape.group[0] else plan.edge
    raise fault(name, error, shape, kernel.native.sites, arguments)
