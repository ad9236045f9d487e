"""The kernel of `metalcore doctor` by each way. Torch's and MLX's calls run on the engine here: no GPU is there."""

from __future__ import annotations

from typing import Any

import pytest

import metalcore
from metalcore.tools import agreement
from metalcore.tools.agreement import NotThere, by_engine, by_mlx, by_numpy, by_torch, report


def results() -> dict[str, agreement.Result]:
    """Three ways that really run, next to NumPy."""
    shader = by_torch(metalcore.compile_shader, "cpu")
    return {
        "NumPy": by_numpy(), "engine": by_engine(), "torch": shader, "mlx": by_mlx(metalcore.metal_kernel)
    }  # fmt: skip


def wrong(source: str) -> Any:
    """compile_shader with a mistake in the kernel."""
    return metalcore.compile_shader(source.replace("kept[255 - t]", "kept[t]").replace("exp(-x[i])", "exp(x[i])"))


@pytest.mark.feature("API", "metalcore doctor: one kernel by the engine, torch.mps and MLX, and which of them agree")
def test_all_agree() -> None:
    good, text = report(results())
    assert good, text
    assert [part.split(" (")[0] for part in text.split("; ")] == [
        f"{name} agrees with NumPy" for name in ("engine", "torch", "mlx")
    ]


def test_one_differs() -> None:
    found = {**results(), "torch": by_torch(wrong, "cpu")}
    good, text = report(found)
    assert not good
    assert "torch differs from NumPy: floats by" in text and "1024 of 1024 whole numbers" in text
    assert "engine agrees with NumPy" in text and "mlx agrees with NumPy" in text
    found["mlx"] = by_torch(wrong, "cpu")
    assert "torch differs from NumPy, as mlx does" in report(found)[1]


def test_nothing_ran() -> None:
    assert report({"NumPy": by_numpy()}) == (False, "no way has run the kernel")


def test_what_is_not_there() -> None:
    """Says so, or runs and agrees."""
    for name in ("torch.mps", "MLX"):
        try:
            good, text = report({"NumPy": by_numpy(), name: agreement.WAYS[name]()})
        except NotThere as missing:
            assert "no M" in str(missing) or "not installed" in str(missing)
        else:
            assert good, text
