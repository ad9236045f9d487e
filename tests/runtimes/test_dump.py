"""The text that is dumped is the text that is compiled: files are read back, compiled by the drop-ins and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import metalcore
from metalcore.arrays.torch import TorchArrays
from metalcore.health.dump import dump_all
from metalcore.ops.base.launch import COLUMN_SUM
from metalcore.ops.rms_norm import BACKWARD, FORWARD
from metalcore.ops.silu import FORWARD as SILU
from metalcore.runtimes.cpu import CpuRuntime
from metalcore.runtimes.kernel import Kernel, Out
from metalcore.runtimes.mps import MpsRuntime
from metalcore.runtimes.text import metal_kernel_text

torch: Any = pytest.importorskip("torch")
Launch = tuple[Kernel, tuple[Any, ...], tuple[Any, ...], dict[str, Any], tuple[int, ...], tuple[int, ...]]


def vector_launches() -> dict[str, Launch]:
    """As the policy for a GPU has them: vectors of 4, and several simdgroups a row."""
    torch.manual_seed(0)
    x, g, w = torch.randn(3, 512), torch.randn(3, 512), torch.randn(512)
    power = x.square().mean(-1) + 1e-6
    row = Out((3, 512), "float32")
    return {
        "silu": (SILU, ("float32", 4), (), dict(x=x, y=row, count=x.numel()), (2,), (256,)),
        "forward": (
            FORWARD,
            ("float32",) * 2 + (4,),
            (True,),
            dict(x=x, weight=w, y=row, power=Out((3,), "float32"), rows=3, width=512, eps=1e-6),
            (3,),
            (128,),
        ),
        "backward": (
            BACKWARD,
            ("float32",) * 2 + (4,),
            (True, True, True),
            dict(
                **dict(g=g, x=x, weight=w, power=power, dx=row, shares=Out((2, 512), "float32")),
                **dict(rows=3, width=512, rows_each=2),
            ),
            (2,),
            (128,),
        ),
        "sum": (
            COLUMN_SUM,
            ("float32",),
            (),
            dict(shares=g, out=Out((512,), "float32"), rows=3, width=512),
            (2,),
            (256,),
        ),
    }


CASES = [pytest.param(name, marks=[] if name == "silu" else pytest.mark.sweep) for name in vector_launches()]


@pytest.mark.parametrize("name", CASES)
def test_dumped_text_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = vector_launches()[name]
    truth = CpuRuntime(TorchArrays()).launch(*launch)
    monkeypatch.setenv("METALCORE_DUMP", str(tmp_path))
    texts: list[str] = []

    def compile_shader(text: str) -> Any:
        texts.append(text)
        return metalcore.compile_shader(text)

    found = MpsRuntime(compile_shader, "cpu").launch(*launch)
    for ours, expected in zip(found, truth, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)
    (path,) = tmp_path.glob("*.compile_shader.metal")
    assert texts == [path.read_text()]


@pytest.mark.parametrize("name", CASES)
def test_dumped_metal_kernel_runs(name: str, tmp_path: Path) -> None:
    """On tensors: mlx allocates on multiples of 8 bytes on a CPU, where vectors of 4 floats cannot lie."""
    launch = vector_launches()[name]
    kernel, types, constants, named, groups, group = launch
    arguments = kernel.ordered(named)
    truth = CpuRuntime(TorchArrays()).launch(*launch)
    from metalcore.runtimes.dump import write_kernel

    text = metal_kernel_text(kernel.variant(types, constants))
    header, source = write_kernel(tmp_path, text)
    assert header.name == f"{text.name}.metal_kernel.header.metal"
    made = metalcore.metal_kernel(
        name=text.name,
        input_names=text.input_names,
        output_names=text.output_names,
        header=header.read_text(),
        source=source.read_text(),
    )
    outputs = [a for a in arguments if isinstance(a, Out)]
    numbers = {int: torch.int64, float: torch.float32}
    found = made(
        inputs=[
            a if isinstance(a, torch.Tensor) else torch.tensor(a, dtype=numbers[type(a)])
            for a in arguments
            if not isinstance(a, Out)
        ],
        template=[(n, getattr(torch, v) if isinstance(v, str) else v) for n, v in text.template],
        output_shapes=[out.shape for out in outputs],
        output_dtypes=[getattr(torch, out.dtype) for out in outputs],
        grid=(groups[0] * group[0], 1, 1),
        threadgroup=(*group, 1, 1),
    )
    for ours, expected in zip(found, truth, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


def test_dump_all(tmp_path: Path) -> None:
    """Three files for each variant; the apple policy shows in their names."""
    paths = dump_all(tmp_path, 9, ["rms_norm", "silu"])
    names = [path.name for path in paths]
    shaders = [name for name in names if name.endswith(".compile_shader.metal")]
    assert len(names) == 3 * len(shaders) == len(list(tmp_path.iterdir()))
    assert "rms_norm_forward_half_half_4_true.compile_shader.metal" in shaders
    assert any(name.startswith("silu_backward_bfloat_4") for name in shaders)
