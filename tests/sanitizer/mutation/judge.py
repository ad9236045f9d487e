"""Runs one mutant: does its result change, does it leave its buffers or collide, and does sanitize mode find it?"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import metalcore
from metalcore.errors import CompileError, KernelFault
from tests.sanitizer.mutation.cases import CASES, Case
from tests.sanitizer.mutation.mutants import BARRIER, BOUND, INDEX, Mutant

SCHEDULES = 20


@dataclass
class Outcome:
    """What became of a mutant."""

    id: str
    kernel: str
    family: str
    change: str
    line: int
    before: str
    after: str
    error: str = ""  # it does not compile, or it does not end
    changed: bool = False  # the result is wrong under at least one schedule
    varies: bool = False  # two schedules give two results: threads collide
    leaves: bool = False  # checked mode stops it: an access outside of a buffer
    kinds: tuple[str, ...] = ()  # found by the one run of sanitize mode that counts
    seeded_kinds: tuple[str, ...] = ()  # found in the runs with random schedules
    seconds: float = 0

    @property
    def is_counted(self) -> bool:
        if self.error or not self.changed:
            return False
        return self.family in (BARRIER, BOUND) or self.leaves or self.varies

    @property
    def is_found(self) -> bool:
        return bool(self.kinds)

    @property
    def is_plain_wrong(self) -> bool:
        """An index that stays in its buffer, and meets no other thread: a wrong answer, no defect of memory."""
        return not self.error and self.changed and not self.is_counted

    def data(self) -> dict[str, Any]:
        return {**asdict(self), "counted": self.is_counted, "found": self.is_found}


def differs(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return any(
        not np.allclose(given[name], value, rtol=1e-4, atol=1e-4)
        if np.issubdtype(value.dtype, np.floating)
        else not np.array_equal(given[name], value)
        for name, value in wanted.items()
    )


def _outputs(values: dict[str, Any], names: dict[str, Any]) -> bytes:
    return b"".join(np.ascontiguousarray(values[name]).tobytes() for name in names)


def judge(mutant: Mutant, schedules: int = SCHEDULES) -> Outcome:
    """Run the mutant under `schedules` random orders and the plain one; in checked mode too where its index changed."""
    start = time.perf_counter()
    case = CASES[mutant.kernel]
    outcome = Outcome(mutant.id, mutant.kernel, mutant.family, mutant.change, mutant.line, mutant.before, mutant.after)
    try:
        function = metalcore.Library(mutant.source).function(case.name)
        _run(case, function, outcome, schedules)
    except CompileError as error:
        outcome.error = "does not compile: " + (str(error).strip().splitlines() or ["?"])[0]
    outcome.seconds = round(time.perf_counter() - start, 3)
    return outcome


def _run(case: Case, function: Any, outcome: Outcome, schedules: int) -> None:
    wanted = case.reference(case.make())
    results: set[bytes] = set()
    found: set[str] = set()

    def launch() -> None:
        values = case.make()
        function(**values, **case.launch)
        outcome.changed |= differs(values, wanted)
        results.add(_outputs(values, wanted))

    if outcome.family == INDEX:
        try:
            function(**case.make(), **case.launch)
        except KernelFault:
            outcome.leaves = True
    with metalcore.mode("sanitize") as report:
        launch()
    outcome.kinds = tuple(sorted({finding.kind for finding in report.findings}))
    for seed in range(schedules):
        with metalcore.mode("sanitize", schedule_seed=seed) as report:
            launch()
        found |= {finding.kind for finding in report.findings}
    outcome.seeded_kinds = tuple(sorted(found))
    outcome.varies = len(results) > 1
