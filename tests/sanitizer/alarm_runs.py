"""Correct kernels that no other test runs in this process, for `python -m tests.sanitizer.false_alarms`: the demo's,
the benchmark's, and random ones. pytest does not collect this file by itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import metalcore
from metalcore.tools import demo
from tests.stress.check import difference, inputs
from tests.stress.generate import generate
from tests.stress.launch import run
from tests.stress.printer import msl
from tests.stress.test_random import ONCE_WRONG, SEEDS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("case", demo._cases(64), ids=lambda case: case.name)
def test_demo(case: demo.Case) -> None:
    good, row = demo._run(demo.examples(), case, 1)
    assert good, row


@pytest.mark.parametrize("seed", SEEDS + ONCE_WRONG)
def test_stress(seed: int) -> None:
    kernel = generate(seed)
    expected = run(kernel, inputs(kernel))
    arrays = inputs(kernel)
    arguments = [arrays[b.name][0] if b.role == "uniform" else arrays[b.name] for b in kernel.buffers]
    metalcore.Library(msl(kernel)).function("k")(*arguments, threads=kernel.threads, group_size=kernel.group_size)
    for buffer, got in zip(kernel.buffers, arguments, strict=True):
        if buffer.role != "uniform":
            assert not difference(buffer, expected[buffer.name], np.asarray(got))


def _benchmarks() -> list[str]:
    sys.path.insert(0, str(BENCHMARKS))
    from harness import rows

    sys.path.remove(str(BENCHMARKS))  # benchmarks/xlstm.py is not the package that transformers looks for
    return [case.key for case in rows.cases() if case.quick or case.memory_light]


@pytest.mark.parametrize("key", _benchmarks())
def test_benchmark(key: str) -> None:
    from harness import peers, rows

    case = next(case for case in rows.cases() if case.key == key)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peers.so"
        peers.build(library)
        setup = case.make(peers.Peers(library))
    setup.verify(key, setup.ours)
