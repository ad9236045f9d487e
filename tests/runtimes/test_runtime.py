"""What every runtime has, and launches by the names of a kernel's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metalcore.errors import ArgumentError
from metalcore.ops.silu import FORWARD
from metalcore.runtimes.cpu import numpy_cpu
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.runtime import Runtime


def arguments(**changed: Any) -> dict[str, Any]:
    return dict(x=np.array([0.0, 100.0], np.float32), y=Out((2,), "float32"), count=2) | changed


def launch(given: Any) -> list[Any]:
    return numpy_cpu().launch(FORWARD, ("float32", 1), (), given, (1, 1), (32, 1))


def test_the_order_of_names_does_not_matter() -> None:
    (y,) = launch(dict(reversed(arguments().items())))
    assert y.tolist() == [0.0, 100.0]


def test_outputs_come_in_the_order_of_the_parameters() -> None:
    kernel = Kernel("rms_norm", "rms_norm_forward", ("has_weight",))
    given = dict(eps=0.0, width=2, rows=1, power=Out((1,), "float32"), y=Out((1, 2), "float32"), weight=None)
    x = np.array([[3.0, 3.0]], np.float32)
    y, power = numpy_cpu().launch(kernel, ("float32", "float32", 1), (False,), dict(given, x=x), (1,), (32,))
    assert y.tolist() == [[1.0, 1.0]] and power.tolist() == [9.0]


def test_wrong_names_are_refused() -> None:
    without = arguments()
    del without["count"]
    with pytest.raises(ArgumentError, match=r"launched without count; kernels/silu.metal names x, y, count$"):
        launch(without)
    with pytest.raises(ArgumentError, match="'silu_forward' is launched with the unknown size;"):
        launch(arguments(size=2))
    with pytest.raises(ArgumentError, match="without count and with the unknown n;"):
        launch(without | dict(n=2))
    with pytest.raises(ArgumentError, match="takes its arguments by name, in a dict, not in a tuple"):
        launch(tuple(arguments().values()))


def test_every_runtime_has_all_members() -> None:
    runtimes: list[Any] = [numpy_cpu()]
    torch = pytest.importorskip("torch")
    from metalcore.dropins.compile_shader import compile_shader
    from metalcore.health.routes import Recorder
    from metalcore.runtimes.cpu import torch_cpu
    from metalcore.runtimes.fake import FakeRuntime
    from metalcore.runtimes.mps import MpsRuntime

    runtimes += [torch_cpu(), FakeRuntime(torch.device("cpu")), MpsRuntime(compile_shader, "cpu"), Recorder()]
    pytest.importorskip("mlx.core")
    from metalcore.runtimes.mlx import MlxRuntime, engine

    runtimes += [MlxRuntime(), engine()]
    for run in runtimes:
        assert isinstance(run, Runtime), type(run)
        with run.stream(0):
            assert run.family in ("cpu", "apple")
