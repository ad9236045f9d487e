"""Every op has its cases, in a file of its noun or of its family, and there are none without an op."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from metalcore.health import cases
from metalcore.health.draw import Sample
from metalcore.health.verify import draw_sample
from metalcore.ops import PARTS, find, nouns

PARTED = ("", *PARTS)


@pytest.mark.parametrize("noun", [noun for part in PARTED for noun in nouns(part)])
def test_every_op_has_cases(noun: str) -> None:
    first, again = (draw_sample(find(noun), 3) for _ in range(2))
    assert isinstance(first, Sample) and first.values
    assert first.label == again.label
    assert all(a.values.tobytes() == b.values.tobytes() for a, b in zip(first.values, again.values, strict=True))
    assert callable(cases.find(noun).reference)


@pytest.mark.parametrize("part", PARTED)
def test_every_file_belongs_to_an_op(part: str) -> None:
    theirs, ours = (
        {m.name for m in pkgutil.iter_modules(import_module(package).__path__) if not m.ispkg}
        for package in (f"metalcore.ops{part and '.'}{part}", f"{cases.__name__}{part and '.'}{part}")
    )
    assert theirs == ours
