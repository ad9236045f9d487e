"""How many CPU threads a launch may use."""

from __future__ import annotations

from metalcore import settings


class Threads:
    count = 0  # 0: not asked for yet


def get_num_threads() -> int:
    """CPU threads that a launch may use: METALCORE_THREADS, or all that this process may run on."""
    if not Threads.count:
        Threads.count = settings.num_threads()
    return Threads.count


def set_num_threads(count: int) -> None:
    """Launches from now on use at most this many CPU threads; with 1, threadgroups run one after the other in order."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"the number of threads must be a positive int, not {count!r}")
    Threads.count = min(count, 1024)
