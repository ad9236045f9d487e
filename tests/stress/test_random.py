"""Fifty stored seeds, and those that once found a fault: the engine and the interpreter agree on every bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.stress.check import check, report
from tests.stress.generate import generate
from tests.stress.worker import Engine

# Of the first hundred, those that compile in about a second; `python -m tests.stress.run` has no such limit.
# fmt: off
SEEDS = (
    1, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 23, 26, 27, 28, 29, 31, 33, 35, 36, 37, 40, 42,
    44, 46, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 60, 61, 62, 64, 65, 66, 67, 68, 70, 71,
)
# fmt: on
ONCE_WRONG = (325, 976)  # an index that wraps between two lanes, extended; bitreverse of a boolean


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with closing(Engine()) as worker:
        yield worker


@pytest.mark.feature("lockstep", "random kernels agree with a scalar interpreter")
@pytest.mark.parametrize("seed", SEEDS + ONCE_WRONG)
def test_engine_agrees_with_the_interpreter(seed: int, engine: Engine) -> None:
    kernel = generate(seed)
    outcome = check(kernel, engine)
    assert outcome.good, report(kernel, outcome)


@pytest.fixture(scope="module")
def strict_engine() -> Iterator[Engine]:
    with closing(Engine(keep_tests=True)) as worker:
        yield worker


@pytest.mark.parametrize("seed", SEEDS + ONCE_WRONG)
def test_with_every_test_of_bounds_kept_nothing_changes(seed: int, strict_engine: Engine) -> None:
    kernel = generate(seed)
    outcome = check(kernel, strict_engine, "checked")
    assert outcome.good, report(kernel, outcome)
