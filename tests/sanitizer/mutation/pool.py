"""Mutants in worker processes: one that does not end is stopped, and its worker replaced."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from tests.sanitizer.mutation.judge import Outcome, judge
from tests.sanitizer.mutation.mutants import Mutant

TIMEOUT = 60.0  # seconds for one mutant


def _serve(pipe: Connection, cache: str) -> None:
    os.environ["METALCORE_CACHE"] = cache  # mutants do not belong into the user's cache
    while (mutant := pipe.recv()) is not None:
        pipe.send(judge(mutant))


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    mutant: Mutant | None = None
    since: float = 0

    def give(self, mutant: Mutant) -> None:
        self.mutant, self.since = mutant, time.monotonic()
        self.pipe.send(mutant)


def _start(cache: str) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, cache), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _lost(worker: _Worker, reason: str) -> Outcome:
    m = worker.mutant
    assert m is not None
    worker.process.kill()
    worker.process.join()
    return Outcome(m.id, m.kernel, m.family, m.change, m.line, m.before, m.after, error=reason)


def run_all(mutants: Sequence[Mutant], processes: int, cache: str) -> Iterator[Outcome]:
    """The outcome of each mutant, in the order in which they end."""
    left = list(reversed(mutants))
    workers = [_start(cache) for _ in range(min(processes, len(left)))]
    for worker in workers:
        worker.give(left.pop())
    while workers:
        ready = wait([worker.pipe for worker in workers], timeout=1.0)
        for worker in list(workers):
            if worker.pipe in ready:
                try:
                    outcome = cast(Outcome, worker.pipe.recv())
                except EOFError:
                    outcome = _lost(worker, "the process ended")
            elif time.monotonic() - worker.since > TIMEOUT:
                outcome = _lost(worker, f"does not end within {TIMEOUT:.0f} s")
            else:
                continue
            yield outcome
            workers.remove(worker)
            if not left:
                if worker.process.is_alive():
                    worker.pipe.send(None)
                    worker.process.join()
                continue
            if not worker.process.is_alive():
                worker = _start(cache)
            worker.give(left.pop())
            workers.append(worker)
