"""Sanitize mode finds every seeded defect, says where it is, and finds nothing else; nothing in the corrected twins."""

from __future__ import annotations

from collections import Counter

import pytest

from metalcore.diagnostics.kinds import KINDS
from metalcore.errors import LaunchError
from tests.sanitizer.defects import Defect, all_defects
from tests.sanitizer.defects.run import complaints, run

DEFECTS = all_defects()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.id)
def test_the_defect_is_found(defect: Defect) -> None:
    if defect.kind == "launch":
        with pytest.raises(LaunchError):
            run(defect, fixed=False)
        return
    report = run(defect, fixed=False)
    assert not complaints(defect, report), f"{complaints(defect, report)}\nall findings:\n{report}"


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.id)
def test_nothing_is_found_in_the_corrected_kernel(defect: Defect) -> None:
    report = run(defect, fixed=True)
    assert not report.findings, str(report)


def test_the_set_is_large_enough() -> None:
    classes = Counter(defect.kind for defect in DEFECTS)
    assert set(classes) == {*KINDS, "launch"}
    assert min(classes.values()) >= 4, classes
    assert len(DEFECTS) >= 70
    assert len({defect.id for defect in DEFECTS}) == len(DEFECTS)
    assert sum(bool(defect.origin) for defect in DEFECTS) >= 15


def test_each_defect_is_of_its_class() -> None:
    for defect in DEFECTS:
        assert defect.kind == "launch" or defect.kind in {each.kind for each in defect.expected}, defect.id
