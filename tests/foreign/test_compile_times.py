"""The command that measures how long kernels of the corpus take to compile."""

from __future__ import annotations

from metalcore.engine.optimiser import llvm
from tests.foreign import batch
from tests.foreign.compile_times import SAMPLE, STAGES, Measure
from tests.foreign.corpus import HERE


def test_each_stage_of_a_kernel_is_counted() -> None:
    whole = llvm.emit_object
    measure = Measure(checked=True)
    try:
        row = measure.row(batch.read_unit(HERE / "mlx" / "arange.metal"), "arange_float32", (32, 1, 1))
    finally:
        measure.close()
    assert set(row.seconds) == set(STAGES) and row.total > 0.02
    assert all(row.seconds[stage] > 0 for stage in ("clang", "scalar", "lockstep", "code"))
    assert 10 < row.scalar_lines < row.lockstep_lines
    assert llvm.emit_object is whole


def test_the_sample_is_large_enough_to_compare() -> None:
    assert sum(len(names.split()) for _, _, names in SAMPLE) >= 60
