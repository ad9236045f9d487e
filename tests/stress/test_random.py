"""Fifty stored seeds: the engine and the interpreter agree on every bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stress.check import check, report
from tests.stress.generate import generate
from tests.stress.worker import Engine

SEEDS = range(1, 51)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    worker = Engine()
    yield worker
    worker.close()


@pytest.mark.feature("lockstep", "random kernels agree with a scalar interpreter")
@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_the_interpreter(seed: int, engine: Engine) -> None:
    kernel = generate(seed)
    outcome = check(kernel, engine)
    assert outcome.good, report(kernel, outcome)
