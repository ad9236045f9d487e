"""Which device a launch is checked for: `with metalcore.target("M1"):`, or METALCORE_TARGET, or none."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache

from metalcore import settings
from metalcore.launch import blocks
from metalcore.launch.limits import COMMON, Limits

_chosen: ContextVar[Limits | None] = ContextVar("metalcore_target", default=None)

chosen_target = _chosen.get
"""The limits chosen by `target` in this thread or task, or None: part of the key of a kept launch plan."""

# A launch costs under two microseconds, so the common case reads one variable: the mode of the block around it, None
# where there is no block, or TARGETED, under which no plan is kept.
TARGETED = "a target is chosen"
block: ContextVar[str | None] = ContextVar("metalcore_block", default=None)


@cache
def _from_settings(name: str) -> Limits:
    if not name:
        return COMMON
    from metalcore.launch.families import limits_of

    try:
        return limits_of(name)
    except ValueError as error:
        raise ValueError(f"METALCORE_TARGET: {error}") from None


def current_limits() -> Limits:
    """What a launch is held to now."""
    return _chosen.get() or _from_settings(settings.target())


class target:
    """Context manager: launches inside are held to the limits of a chip or a GPU family, in this thread or task alone.

    The kernels still run on this CPU; only the checks change.

    >>> import metalcore, numpy as np
    >>> f = metalcore.Library("kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 1; }")
    >>> with metalcore.target("A10"):
    ...     f.function("f")(np.zeros(1024, np.float32), threads=1024, group_size=1024)
    Traceback (most recent call last):
        ...
    metalcore.errors.LaunchError: kernel 'f': group_size=1024 has 1024 threads, the limit of A10 (Apple3) is 512: use smaller threadgroups

    `max_threads` is what a device said of a compiled pipeline (maxTotalThreadsPerThreadgroup), which cannot be known
    here: a number for every kernel, or a mapping from the names of kernels.
    """  # noqa: E501

    def __init__(self, name: str, *, max_threads: int | Mapping[str, int] | None = None) -> None:
        from metalcore.launch.families import limits_of

        given = {"": max_threads} if isinstance(max_threads, int) else dict(max_threads or {})
        for kernel, count in given.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                of = f" of kernel '{kernel}'" if kernel else ""
                raise ValueError(f"max_threads{of} must be a positive int, not {count!r}")
        self.limits = limits_of(name)._replace(pipeline=tuple(sorted(given.items())))

    def __enter__(self) -> target:
        blocks.enter(self, (_chosen, self.limits), (block, TARGETED))
        return self

    def __exit__(self, *error: object) -> None:
        blocks.leave(self)
