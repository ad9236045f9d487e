"""The mutation check: its kernels are right, its mutants are many, and of a few each is judged as it must be."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.sanitizer.mutation.cases import CASES
from tests.sanitizer.mutation.judge import Outcome, judge
from tests.sanitizer.mutation.mutants import BARRIER, BOUND, INDEX, Mutant, mutants_of, unchanged
from tests.sanitizer.mutation.summary import Summary

MUTANTS = [mutant for case in CASES.values() for mutant in mutants_of(case.name, case.source)]


def mutant(kernel: str, change: str, part: str) -> Mutant:
    """The first one with that change in a line that has that part."""
    return next(m for m in MUTANTS if (m.kernel, m.change) == (kernel, change) and part in m.before)


@pytest.mark.parametrize("name", ("histogram", "transpose", "segmented_sum", "block_scan"))
def test_a_correct_kernel_is_right_and_clean_under_every_schedule(name: str) -> None:
    outcome = judge(unchanged(name, CASES[name].source), schedules=3)
    assert not (outcome.error or outcome.changed or outcome.kinds or outcome.seeded_kinds), outcome


@pytest.mark.parametrize(
    "kernel, change, part, kind",
    (
        ("stencil", "guard dropped", "if (i < n)", "out-of-bounds"),
        ("transpose", "< becomes <=", "if (row < rows", "out-of-bounds"),
        ("top_k", "index + 1", "left[where[0]]", ""),
        ("scan", "barrier deleted", "", "race"),
        ("segmented_sum", "flag mem_threadgroup", "", "wrong-fence"),
        ("matvec", "barrier deleted", "simdgroup_barrier", "simdgroup-race"),
    ),
)
def test_a_mutant_is_judged(kernel: str, change: str, part: str, kind: str) -> None:
    outcome = judge(mutant(kernel, change, part), schedules=4)
    assert not outcome.error
    assert (kind in outcome.kinds) if kind else outcome.is_plain_wrong, outcome
    if kind == "race":
        assert outcome.changed and outcome.varies, "random schedules show the race as a changed result"


def test_there_are_enough_mutants_of_each_family() -> None:
    assert len(CASES) >= 20
    assert len(MUTANTS) >= 200
    families = Counter(m.family for m in MUTANTS)
    assert min(families[family] for family in (BARRIER, BOUND, INDEX)) >= 100
    assert len({m.source for m in MUTANTS}) == len(MUTANTS)
    assert all(m.source != CASES[m.kernel].source for m in MUTANTS)


def _outcome(family: str, **facts: object) -> Outcome:
    return Outcome("k-0", "k", family, "changed", 1, "a", "b", **facts)  # type: ignore[arg-type]


def test_what_is_counted() -> None:
    found = _outcome(BARRIER, changed=True, kinds=("race",))
    missed = _outcome(BOUND, changed=True)
    collides = _outcome(INDEX, changed=True, varies=True, kinds=("race",))
    wrong = _outcome(INDEX, changed=True)
    same = _outcome(BARRIER, kinds=("wrong-fence",))
    broken = _outcome(INDEX, error="does not compile")
    summary = Summary([found, missed, collides, wrong, same, broken])
    assert summary.counted == [found, missed, collides]
    assert summary.missed == [missed] and summary.plain == [wrong] and summary.broken == [broken]
    assert summary.rate == pytest.approx(2 / 3) and not summary.is_met
    assert json.loads(summary.json(0))["found"] == 2
    assert "| all | 6 | 4 | 3 | 2 | 66.7% |" in summary.markdown()
