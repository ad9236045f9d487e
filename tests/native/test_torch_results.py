"""Every fused op through the core of native/torch, its kernels run by the engine: what Metal is given, taken together,
gives the right results and gradients. `pytest -m sweep tests/native` runs them; minutes.
"""

from __future__ import annotations

from typing import Any

import pytest

import metalcore
from metalcore.health import verify
from metalcore.health.routes import on_runtime
from metalcore.ops import find, nouns
from tests.native.machine import Machine
from tests.runtimes.cases import cheapest, like

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.sweep


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("core"), runs=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("noun", nouns())
def test_results(noun: str, dtype: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    if dtype not in find(noun).dtypes:
        return
    monkeypatch.setitem(
        verify.ROUTES, "native", lambda op, sample, dtype, index: on_runtime(machine.run, op, sample, dtype, index)
    )
    before = len(machine.metal.log)
    with metalcore.mode("fast"):
        outcomes = [
            verify.verify(find(noun), dtype, index, "native") for index in like(noun, "float32", cheapest(noun))
        ]
    assert [o.explain() for o in outcomes if not o.passed] == []
    assert [row for row in machine.metal.log[before:] if row[0] == "problem"] == []
    assert any(row[1] == "dispatch" for row in machine.metal.log[before:])
