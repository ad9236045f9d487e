"""Interleaved timing: A B C A B C ..., so that a busy neighbour or a clock change meets all alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

Call = Callable[[], object]
_SAMPLE = 0.0005  # seconds: short enough to fit between two interruptions, often
_LONG = 0.03  # seconds: what takes this long need not be warmed up
_AT_LEAST, _AT_MOST = 12, 400  # samples of each
_FAR_BEHIND = 8  # who is so many times slower than the fastest, and long, gives two samples only


@dataclass(frozen=True)
class Contestant:
    """What is timed. `around` is entered once for each sample, outside of the clock."""

    call: Call
    around: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)

    def run(self) -> None:
        with self.around():
            self.call()

    def sample(self, repeats: int, warm: bool = True) -> float:
        """Seconds per call, after one call that brings data and code back into the caches."""
        call, clock = self.call, time.perf_counter
        with self.around():
            if warm:
                call()
            start = clock()
            for _ in range(repeats):
                call()
            return (clock() - start) / repeats


def interleaved(contestants: Mapping[str, Contestant], *, budget: float, pause: float = 0.0) -> dict[str, float]:
    """Seconds per call of each, the least disturbed of many short samples, within about `budget` seconds in all.

    `pause` lets the spinning threads of one contestant go to sleep before the next one starts.
    """
    repeats: dict[str, int] = {}
    costs: dict[str, float] = {}
    for name, contestant in contestants.items():
        took = contestant.sample(1)
        repeats[name] = max(1, int(_SAMPLE / max(took, 1e-7)))
        costs[name] = took * (repeats[name] + 1) + pause
    slow = {name for name, cost in costs.items() if cost > budget / 4 and cost > _FAR_BEHIND * min(costs.values())}
    rounds = int(budget / sum(cost for name, cost in costs.items() if name not in slow))
    rounds = max(_AT_LEAST, min(_AT_MOST, rounds))  # the same for all, or the one with most samples has the best luck
    best = dict.fromkeys(contestants, float("inf"))
    shuffle = random.Random(1).shuffle
    for number in range(rounds):
        names = [name for name in contestants if name not in slow or number < 2]
        shuffle(names)  # what one leaves in the caches must not always meet the same other
        for name in names:
            if pause:
                time.sleep(pause)
            best[name] = min(best[name], contestants[name].sample(repeats[name], warm=costs[name] < _LONG))
    return best
