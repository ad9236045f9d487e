"""Which cases are run, and running them on several processes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from metalcore.errors import ArgumentError
from metalcore.health.verify import ROUTES, SEED, Outcome, verify
from metalcore.ops import find, nouns
from metalcore.ops.base.op import FLOATS
from metalcore.settings import use_usual_torch

CASES = 40


class Work(Protocol):
    """A piece of work for a process."""

    def run(self) -> list[Outcome]: ...

    def failed(self, problem: str) -> Outcome:
        """What stands in the report where the process died."""
        ...


@dataclass(frozen=True)
class Group:
    """The cases of one op, dtype and route: one piece of work, so that its kernels are compiled once."""

    noun: str
    dtype: str
    route: str
    cases: int
    seed: int

    def run(self) -> list[Outcome]:
        op = find(self.noun)
        return [verify(op, self.dtype, index, self.route, self.seed) for index in range(self.cases)]

    def failed(self, problem: str) -> Outcome:
        return Outcome(self.noun, self.dtype, self.route, -1, "the process", (), 0.0, problem)


def routes() -> tuple[str, ...]:
    """The routes whose framework is installed."""
    there = {"mps": _has_mps(), "mlx": _is_installed("mlx"), "mlx-text": _is_installed("mlx")}
    return tuple(route for route in ROUTES if there.get(route, True))


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _has_mps() -> bool:
    import torch

    return torch.backends.mps.is_available()


def groups(
    chosen: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    routes_: Sequence[str] = (),
    cases: int | None = None,
    seed: int | None = None,
) -> list[Group]:
    """Everything that is to be run; an unknown name is an error that lists the known ones."""
    if not _is_installed("torch"):
        raise ArgumentError("health compares with PyTorch, which is not installed: pip install torch")
    known = {"op": nouns(), "dtype": FLOATS, "route": routes()}
    for kind, given in (("op", chosen), ("dtype", dtypes), ("route", routes_)):
        for name in given:
            if name not in known[kind]:
                raise ArgumentError(f"there is no {kind} {name!r}; there are {', '.join(known[kind])}")
    return [
        Group(noun, dtype, route, cases or CASES, SEED if seed is None else seed)
        for noun in chosen or known["op"]
        for dtype in dtypes or known["dtype"]
        if dtype in find(noun).dtypes
        for route in routes_ or known["route"]
    ]


def run(work: Sequence[Work], jobs: int) -> Iterator[tuple[Any, list[Outcome]]]:
    """Outcomes as they come; a process that dies takes its group with it, and the report says so."""
    use_usual_torch()
    if jobs <= 1:
        for group in work:
            yield group, group.run()
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = {pool.submit(group.run): group for group in work}
        for done in as_completed(started):
            group, error = started[done], done.exception()
            if error is None:
                yield group, done.result()
            else:
                yield group, [group.failed(f"{type(error).__name__}: {error}")]
