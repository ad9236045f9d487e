"""MpsRuntime, argument by argument, with the engine's compile_shader, which refuses what PyTorch refuses."""

from __future__ import annotations

from typing import Any

import pytest

from metalcore.dropins.compile_shader import compile_shader
from metalcore.errors import ArgumentError, IndexRangeError
from metalcore.ops.rms_norm import FORWARD
from metalcore.runtimes.kernel import Out
from metalcore.runtimes.mps import MpsRuntime

torch: Any = pytest.importorskip("torch")


class Watching:
    """compile_shader, with a note of every text compiled and every call made."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, text: str) -> Any:
        self.texts.append(text)
        library = compile_shader(text)
        outer = self

        class Library:
            def __getattr__(self, name: str) -> Any:
                kernel = getattr(library, name)

                def call(*arguments: Any, **options: Any) -> None:
                    outer.calls.append((arguments, options))
                    kernel(*arguments, **options)

                return call

        return Library()


def launch(run: MpsRuntime, x: Any, weight: Any, width: int, eps: float, groups: tuple[int, ...] = (2,)) -> list[Any]:
    arguments = dict(x=x, weight=weight, y=Out((2, x.shape[-1]), "float32"), power=Out((2,), "float32"))
    arguments |= dict(rows=2, width=width, eps=eps)
    types = ("float32", "float32" if weight is None else run.dtype(weight), 1)
    return run.launch(FORWARD, types, (weight is not None,), arguments, groups, (32,))


def test_arguments() -> None:
    """Tensors at their place, an int as int, a whole number for a float as float, None as a tensor; 3-D sizes."""
    watching = Watching()
    run = MpsRuntime(watching, "cpu")
    x = torch.randn(2, 8)
    for _ in range(2):
        y, _ = launch(run, x, None, True * 8, 0)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (8,), eps=0.0))
    assert len(watching.texts) == 1  # compiled once
    arguments, options = watching.calls[0]
    assert arguments[0] is x and arguments[1] is run.tensors.nothing and arguments[2].shape == (2, 8)
    assert [(type(a), a) for a in arguments[4:]] == [(int, 2), (int, 8), (float, 0.0)]
    assert options == {"threads": [64, 1, 1], "group_size": [32, 1, 1]}


def test_refused() -> None:
    run = MpsRuntime(compile_shader, "cpu")
    x = torch.randn(2, 8)
    with pytest.raises(ArgumentError, match="x holds float32, not float64"):
        launch(run, x.double(), None, 8, 0.0)
    with pytest.raises(ArgumentError, match="x is on meta, not cpu"):
        launch(run, x.to("meta"), None, 8, 0.0)
    with pytest.raises(ArgumentError, match="no float64"):
        launch(run, x, torch.ones(8, dtype=torch.float64), 8, 0.0)


def test_no_threadgroups() -> None:
    """Nothing is launched, and outputs are there."""
    watching = Watching()
    y, power = launch(MpsRuntime(watching, "cpu"), torch.randn(2, 8), None, 8, 0.0, groups=(0,))
    assert watching.calls == [] and y.shape == (2, 8) and power.shape == (2,)


def test_errors_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is not waited for, unless the setting says so."""
    run = MpsRuntime(compile_shader, "cpu")
    errors = torch.tensor([[0, 0, 0], [1, 5, 77]])
    run.check_errors(errors, lambda row, value: f"{value} in row {row}")
    monkeypatch.setenv("METALCORE_CHECK_GPU", "1")
    with pytest.raises(IndexRangeError, match="77 in row 5"):
        run.check_errors(errors, lambda row, value: f"{value} in row {row}")
