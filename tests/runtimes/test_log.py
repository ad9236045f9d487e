"""METALCORE_LOG=variants names each variant of a library kernel once for each runtime."""

from __future__ import annotations

from typing import Any

import pytest

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.errors import ArgumentError
from metalcore.ops import find
from metalcore.runtimes.cpu import CpuRuntime
from metalcore.runtimes.mps import MpsRuntime

torch: Any = pytest.importorskip("torch")


def lines(run: Any, capfd: Any, x: Any) -> list[str]:
    find("silu").forward.plan(run, x)
    return str(capfd.readouterr().err).splitlines()


def test_a_variant_is_named_once(monkeypatch: Any, capfd: Any) -> None:
    x = torch.ones(8)
    assert lines(CpuRuntime(TorchArrays()), capfd, x) == []
    monkeypatch.setenv("METALCORE_LOG", "variants")
    run = CpuRuntime(TorchArrays())
    (found,) = lines(run, capfd, x)
    assert found.startswith("metalcore: engine: kernels/silu.metal: silu_forward_float_")
    assert lines(run, capfd, x) == []
    assert lines(run, capfd, x.double()) == [found + " with float as double"]


def test_of_the_texts_for_frameworks(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("METALCORE_LOG", "variants")
    (found,) = lines(MpsRuntime(metalcore.compile_shader, "cpu"), capfd, torch.ones(8))
    assert found.startswith("metalcore: compile_shader: kernels/silu.metal: silu_forward_float_")


def test_of_mlx(monkeypatch: Any, capfd: Any) -> None:
    mx: Any = pytest.importorskip("mlx.core")
    from metalcore.runtimes.mlx import MlxRuntime

    monkeypatch.setenv("METALCORE_LOG", "variants")
    (found,) = lines(MlxRuntime(metalcore.metal_kernel, is_eager=True), capfd, mx.ones((8,)))
    assert found.startswith("metalcore: metal_kernel: kernels/silu.metal: silu_forward_float_")


def test_function_constants_are_named(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("METALCORE_LOG", "variants")
    find("rms_norm").forward.plan(CpuRuntime(TorchArrays()), torch.ones(2, 8), None, 1, 1e-6)
    assert "[has_weight=false" in capfd.readouterr().err


def test_another_word_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setenv("METALCORE_LOG", "variant")
    with pytest.raises(ArgumentError, match=r"METALCORE_LOG must be variants, .* not 'variant'"):
        find("silu").forward.plan(CpuRuntime(TorchArrays()), torch.ones(8))
