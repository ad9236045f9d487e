"""What all tests share: the `feature` marker, from which docs/supported.md is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Tests import each other's helpers as tests.*, whatever the working directory is.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

AREAS = (
    "language",
    "lockstep",
    "types",
    "math",
    "simdgroup",
    "atomics",
    "threadgroup memory",
    "rejected",
    "API",
    "corpus",
    "not yet",  # valid MSL that the engine refuses by name
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "feature(area, name): the row of docs/supported.md that this test backs; area is one of " + ", ".join(AREAS),
    )
    config.addinivalue_line("markers", "sweep: one of many like cases, or a slow one; run with `pytest -m sweep`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "sweep" not in (config.option.markexpr or ""):
        left_out = [item for item in items if item.get_closest_marker("sweep")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("sweep")]
    for item in items:
        for marker in item.iter_markers("feature"):
            if len(marker.args) != 2 or marker.args[0] not in AREAS:
                raise pytest.UsageError(f"{item.nodeid}: feature takes one of {AREAS} and a name, not {marker.args}")
            item.user_properties.append(("feature", marker.args))
