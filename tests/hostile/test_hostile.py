"""Hostile launches of a stored seed, one kernel of each family, in all three modes; and a soak."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.hostile.case import MODES
from tests.hostile.generate import FAMILIES, family_of
from tests.hostile.runner import Failure, explain
from tests.hostile.worker import Worker
from tests.stress.worker import ROOT

LAUNCHES = 8  # drawn for each kernel; in the modes that apply they are some 20
# Short kernels, which compile fast; `python -m tests.hostile` has no such limit.
SEEDS = {
    **{"device": 3344, "constant": 3201, "threadgroup": 3346, "private": 3827, "private-views": 3780, "vectors": 3653},
    **{"packed": 3766, "atomics": 3271, "matrices": 3688, "wrapping": 3465, "pointers": 3242, "listed": 3819},
    **{"loops": 3436, "mixed": 3533, "large": 3550, "undefined": 3535},
}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as made:
        yield made


@pytest.mark.feature("lockstep", "hostile launches between guard pages agree with an exact oracle")
@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_launches(family: str, worker: Worker) -> None:
    """No crash, no hang, no byte beside an array, a fault exactly where an access is out of bounds, exact values."""
    seed = SEEDS[family]
    assert family_of(seed) == family
    results = list(worker.seed(seed, LAUNCHES, MODES))
    assert len(results) >= 2 * LAUNCHES
    for number, mode, _, verdict in results:
        assert verdict.good, explain(Failure(seed, number, mode, verdict.kind, verdict.detail), 30.0)


def test_soak() -> None:
    """Threads, forks, signals and a damaged cache at once."""
    command = [sys.executable, "-m", "tests.hostile.soak", "--seconds", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
