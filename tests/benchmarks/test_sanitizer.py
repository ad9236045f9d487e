"""The sanitizer's benchmark counts right, and puts its figures where they belong."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

pytest.importorskip("torch")
import sanitizer  # noqa: E402
from harness import sanitize  # noqa: E402

sys.path.remove(str(BENCHMARKS))  # benchmarks/xlstm.py is not the package that transformers looks for


def row(*times: tuple[float, float], buffers: int = 100, extra: int = 150) -> sanitizer.Row:
    found = sanitizer.Row("k", "1 M")
    for fast, slow in times:
        found.add({"seconds": {"fast": fast, "sanitize": slow}, "findings": []})
    found.add({"buffers": buffers, "extra": extra})
    return found


def test_ratios_are_taken_within_a_process() -> None:
    found = row((1e-3, 4e-3), (2e-3, 18e-3), (1e-3, 5e-3))
    assert found.ratio == 5
    assert found.memory == 2.5
    assert found.cells() == ["k", "1 M", "1.00 ms", "5.00 ms", "5.0", "2.50", "none"]


def test_the_mean_is_geometric_and_the_memory_the_largest() -> None:
    figures = sanitizer.summary([row((1e-4, 2e-4)), row((1e-4, 8e-4), extra=250)])
    assert figures[0] == ["time of sanitize against fast, geometric mean", "4.00 x", "at most 4 x", "yes"]
    assert figures[1] == ["memory against the buffers, the largest", "3.50 x", "at most 3 x", "**no**"]
    assert figures[2][1:] == ["0", "none", "yes"]


def test_findings_and_errors_are_shown() -> None:
    found = sanitizer.Row("k", "1 M")
    found.add({"error": "AssertionError: off"})
    assert found.cells()[-1] == "AssertionError: off"
    found.add({"seconds": {"fast": 1e-6, "sanitize": 2e-6}, "findings": ["race at line 3 (2x)"]})
    assert sanitizer.summary([found])[2] == ["findings in these correct kernels", "1", "none", "**no**"]


def test_the_figures_go_between_their_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- figures:begin -->\nold\n<!-- figures:end -->\nbelow\n")
    sanitizer.write_document(page, sanitizer.markdown([row((1e-3, 4e-3))], 3))
    text = page.read_text()
    assert text.startswith("above\n<!-- figures:begin -->\nMade by") and text.endswith("<!-- figures:end -->\nbelow\n")
    assert "| k | 1 M | 1.00 ms | 4.00 ms | 4.0 | 2.50 | none |" in text and "old" not in text
    page.write_text("no marks")
    with pytest.raises(click.ClickException, match="has no block"):
        sanitizer.write_document(page, "")


def test_the_arrays_of_a_call_are_found_once() -> None:
    x, y = np.zeros(4), np.zeros(8)

    def call() -> None:
        assert x.size < y.size

    assert [a.size for a in sanitize.arrays_of(partial(print, x, y, x, 3, n=y))] == [4, 8]
    assert [a.size for a in sanitize.arrays_of(call)] == [4, 8]


def test_memory_is_measured_in_a_process_of_its_own() -> None:
    orders = list(sanitizer.orders(["a", "b"], "peers.so", 2, 0.5, memory=True))
    assert [(order["keys"], order["memory"]) for order in orders] == [
        (["a", "b"], False),
        (["a", "b"], False),
        (["a"], True),
        (["b"], True),
    ]
