"""The command that compares how long kernels take to compile in sanitize and in fast mode."""

from __future__ import annotations

import pytest

from metalcore.engine import pipeline
from metalcore.engine.frontend import lower
from metalcore.engine.model import Variant
from metalcore.engine.optimiser import llvm
from tests.sanitizer.compile_times import STAGES, Item, Measure, Row, chosen, of_ops, print_table


def _item(name: str) -> Item:
    return next(chosen(name))


def test_each_stage_of_both_modes_is_counted() -> None:
    whole = llvm.emit_object
    measure = Measure()
    try:
        row = measure.both(_item("elementwise/saxpy"))
    finally:
        measure.close()
    assert set(row.fast) == set(row.sanitize) == set(STAGES)
    assert row.fast["clang"] == row.sanitize["clang"] > 0.001
    assert row.fast["hooks"] == 0 and row.sanitize["hooks"] > 0
    assert all(of[stage] > 0 for of in (row.fast, row.sanitize) for stage in ("scalar", "lockstep", "code"))
    assert 10 < row.fast_lines < row.sanitize_lines
    assert llvm.emit_object is whole


def test_kernels_of_an_op_are_found_without_a_launch() -> None:
    names = [name for name, _, _ in of_ops("rms_norm", "float32", "cpu")]
    assert any("rms_norm_forward" in name for name in names) and any("rms_norm_backward" in name for name in names)


def test_the_table_tells_the_worst_and_the_mean(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = dict.fromkeys(STAGES, 1.0)
    rows = [Row("one", seconds, seconds, 1, 1), Row("two", seconds, {s: 4.0 for s in STAGES}, 1, 2)]
    print_table(rows)
    assert "2 kernels: geometric mean 2.00, worst 4.00; above 2: 1" in capsys.readouterr().out


def test_hooks_of_many_small_functions_are_few_lines() -> None:
    """Parameters of inlined functions are values before hooks are put in, and structs that are copied stay split."""
    item = _item("rms_norm apple/rms_norm_backward_bfloat_bfloat_4")
    kernel = lower(item.unit, item.function, item.constants)
    variant = Variant.choose(item.group, checked=False).with_checks((), clipped=False)
    hooked, _ = pipeline._hooked(kernel, variant, None)
    assert hooked.function.length < 10_000  # 28,725 before
