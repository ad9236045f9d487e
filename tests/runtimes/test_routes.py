"""Every op through the text for torch.mps.compile_shader and mx.fast.metal_kernel, run by the engine's drop-ins.

By default one small case and one like it, in float32, by one of the two routes; `pytest -m sweep tests/runtimes` runs
both, with many cases in every dtype, and with the vectors and many simdgroups that a GPU gets.
"""

from __future__ import annotations

from typing import Any

import pytest

import metalcore
from metalcore.dropins.compile_shader import ShaderKernel
from metalcore.health.routes import text_mlx, text_mps
from metalcore.health.verify import verify
from metalcore.ops import find, nouns
from metalcore.runtimes.slots import Slots
from tests.runtimes.cases import cheapest, like

TEXT = ("mps-text", "mlx-text")


def run(noun: str, dtype: str, route: str, cases: list[int]) -> None:
    outcomes = [verify(find(noun), dtype, index, route) for index in cases]
    assert [o.explain() for o in outcomes if not o.passed] == []
    assert sum(len(o.measures) for o in outcomes) > 0


def text_cases() -> list[Any]:
    """Every op by one of the two routes; the other one waits for the sweep, since every kernel is compiled for it."""
    both = [(noun, route) for noun in nouns() for route in TEXT]
    return [
        pytest.param(route, noun, marks=[] if route == TEXT[sum(noun.encode()) % 2] else pytest.mark.sweep)
        for noun, route in both
    ]


@pytest.mark.parametrize(("route", "noun"), text_cases())
def test_text(route: str, noun: str) -> None:
    pytest.importorskip("mlx.core" if route == "mlx-text" else "torch")
    with metalcore.mode("fast"):
        run(noun, "float32", route, like(noun, "float32", cheapest(noun)))
    for kernel in (text_mps()._shaders if route == "mps-text" else text_mlx()._kernels).values():
        check_arguments(kernel.slots, kernel.call)


def check_arguments(slots: Slots, call: Any) -> None:
    """What the Metal file was read as agrees with what the compiler found."""
    is_shader = isinstance(call, ShaderKernel)
    functions = [call._function] if is_shader else [function for function, _ in call._built.values()]
    for each in functions:
        buffers = [a for a in each.arguments if a.kind != "builtin"]
        found = {a.name if is_shader else a.name.rpartition("_")[0]: a for a in buffers}  # x_in, y_out for MLX
        assert set(found) == {slot.name for slot in slots.slots}
        for slot in slots.slots:
            argument = found[slot.name]
            assert argument.kind == ("value" if slot.convert else "buffer")
            assert argument.writable == (slot.parameter.kind == "output")
            assert argument.scalar == slot.dtype
        if is_shader:  # compile_shader binds by position
            assert [found[slot.name].index for slot in slots.slots] == list(range(len(slots.slots)))


@pytest.mark.parametrize("noun", nouns())
def test_mlx(noun: str) -> None:
    """mlx arrays on the engine."""
    pytest.importorskip("mlx.core")
    run(noun, "float32", "mlx", list(range(4)))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("noun", nouns())
@pytest.mark.parametrize("route", [*TEXT, "mlx"])
def test_more(route: str, noun: str, dtype: str) -> None:
    pytest.importorskip("mlx.core" if route.startswith("mlx") else "torch")
    if dtype not in find(noun).dtypes:
        pytest.skip(f"{noun} takes {find(noun).dtypes}")
    run(noun, dtype, route, list(range(22)))
