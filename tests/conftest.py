"""What all tests share: the `feature` marker, from which docs/supported.md is made."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from zlib import crc32

import pytest

from metalcore.settings import use_usual_torch

use_usual_torch()
ROOT = Path(__file__).resolve().parents[1]
# Tests import each other's helpers as tests.*, whatever the working directory is.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# A shell starts what runs in the background with Ctrl-C ignored, and so would be the programs that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

AREAS = (
    "language",
    "lockstep",
    "types",
    "math",
    "simdgroup",
    "atomics",
    "threadgroup memory",
    "rejected",
    "debugging",
    "API",
    "corpus",
    "not yet",  # valid MSL that the engine refuses by name
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "feature(area, name): the row of docs/supported.md that this test backs; area is one of " + ", ".join(AREAS),
    )
    config.addinivalue_line("markers", "alike: set by this file on parameters beyond MOST_ALIKE; as sweep")
    config.addinivalue_line("markers", "sweep: one of many like cases, or a slow one; run with `pytest -m sweep`")


# Of one test with many parameters the usual run takes so many, evenly spread, and of the corpus of other people's
# kernels one test for each feature; the rest waits for `pytest -m "sweep or not sweep"`.
MOST_ALIKE = {
    **{"engine": 1, "foreign": 1, "dropins": 1, "runtimes": 1, "torch": 1, "stress": 5, "sanitizer": 4, "ops": 1},
    **{"benchmarks": 1, "linalg": 1, "precise": 1, "lint": 3, "optim": 1, "mlx": 1, "launch": 3},
}


def _alike(item: pytest.Item) -> str:
    name = item.nodeid.partition("[")[0]
    feature = item.get_closest_marker("feature") if name.startswith("tests/foreign/") else None
    return f"tests/foreign/{feature.args[1]}" if feature else name


def _thin_out(items: list[pytest.Item]) -> None:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("sweep"):
            groups.setdefault(_alike(item), []).append(item)
    for name, alike in groups.items():
        if "bad_arguments" in name or "_refuses" in name:
            continue  # they end before a kernel is compiled: all of them take a second
        most = MOST_ALIKE.get(name.split("/")[1] if name.count("/") > 1 else "", len(alike))
        kept = {round(i * (len(alike) - 1) / max(most - 1, 1)) for i in range(most)}
        if name.startswith("tests/engine/"):  # modes and types: this test has one, that test another
            kept = {crc32(name.encode()) % len(alike)}
        for i, item in enumerate(alike):
            if len(alike) > most and i not in kept:
                item.add_marker(pytest.mark.alike)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _thin_out(items)
    if "sweep" not in (config.option.markexpr or ""):
        left_out = [i for i in items if i.get_closest_marker("sweep") or i.get_closest_marker("alike")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            gone = set(left_out)
            items[:] = [item for item in items if item not in gone]
    for item in items:
        for marker in item.iter_markers("feature"):
            if len(marker.args) != 2 or marker.args[0] not in AREAS:
                raise pytest.UsageError(f"{item.nodeid}: feature takes one of {AREAS} and a name, not {marker.args}")
            item.user_properties.append(("feature", marker.args))
