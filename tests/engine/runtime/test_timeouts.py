"""`timeout=` of launches and of blocks of `metalcore.mode`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import metalcore
from metalcore.errors import ArgumentError, LaunchTimeout, MetalcoreError

SOURCE = """
kernel void endless(device volatile uint* x, uint i [[thread_position_in_grid]]) { while (x[i] == 0) x[i + 32] += 1; }
kernel void brief(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"""


@pytest.fixture(scope="module")
def library() -> metalcore.Library:
    made = metalcore.Library(SOURCE)
    made.function("endless").check_launch(threads=32)
    return made


def _endless(library: metalcore.Library, **given: Any) -> None:
    library.function("endless")(np.zeros(64, np.uint32), threads=32, **given)


def test_the_error(library: metalcore.Library) -> None:
    with pytest.raises(LaunchTimeout, match=r"kernel 'endless' did not end within 0.03 s") as found:
        _endless(library, timeout=0.03)
    assert isinstance(found.value, MetalcoreError) and isinstance(found.value, TimeoutError)
    ended = np.ones(64, np.uint32)
    library.function("endless")(ended, threads=32, timeout=10)
    assert (ended == 1).all()


def test_what_it_wrote_stays(library: metalcore.Library) -> None:
    x = np.zeros(64, np.uint32)
    with pytest.raises(LaunchTimeout):
        library.function("endless")(x, threads=32, timeout=0.03)
    assert (x[32:] > 0).all()


@pytest.mark.parametrize("timeout", [0, -1, 0.0, math.nan, "5", None, True, [1], 1j])
def test_bad_values(library: metalcore.Library, timeout: Any) -> None:
    if timeout is not None:
        with pytest.raises(ArgumentError, match="timeout"):
            _endless(library, timeout=timeout)
        with pytest.raises(ArgumentError, match="timeout"):
            metalcore.mode("fast", timeout=timeout)
        with pytest.raises(ArgumentError, match="timeout"):
            metalcore.mode(timeout=timeout)
    else:
        with pytest.raises(ValueError, match=r"name .* or a timeout"):
            metalcore.mode()


@pytest.mark.parametrize("timeout", [1e-9, 1, np.float32(2), np.int64(3), 1e30, math.inf])
def test_good_values(library: metalcore.Library, timeout: Any) -> None:
    x = np.zeros(8, np.float32)
    if timeout != 1e-9:
        library.function("brief")(x, threads=8, timeout=timeout)
        assert (x == 1).all()
    else:
        with pytest.raises(LaunchTimeout):
            _endless(library, timeout=timeout)


@pytest.mark.parametrize("mode", ["checked", "fast", "sanitize"])
def test_blocks(library: metalcore.Library, mode: str) -> None:
    with metalcore.mode(mode, timeout=0.02):
        with pytest.raises(LaunchTimeout, match=r"0.02 s"):
            _endless(library)
        with pytest.raises(LaunchTimeout, match=r"0.03 s"):
            _endless(library, timeout=0.03)
        with metalcore.mode("fast"), pytest.raises(LaunchTimeout, match=r"0.02 s"):
            _endless(library)
        with metalcore.mode(timeout=0.04), pytest.raises(LaunchTimeout, match=r"0.04 s"):
            _endless(library)
        with metalcore.target("M1"), pytest.raises(LaunchTimeout, match=r"0.02 s"):
            _endless(library)
        with metalcore.mode(timeout=math.inf), pytest.raises(LaunchTimeout, match=r"0.05 s"):
            _endless(library, timeout=0.05)
    with metalcore.mode(timeout=0.02), metalcore.mode(mode), pytest.raises(LaunchTimeout, match=r"0.02 s"):
        _endless(library)


def test_a_block_with_a_timeout_alone_keeps_the_mode(library: metalcore.Library) -> None:
    short = np.zeros(4, np.float32)
    with metalcore.mode(timeout=5), pytest.raises(metalcore.errors.KernelFault):
        library.function("brief")(short, threads=8)
    with metalcore.mode("sanitize") as report, metalcore.mode(timeout=5):
        library.function("brief")(short, threads=8)
    assert [f.kind for f in report.findings] == ["out-of-bounds"]


def test_the_drop_ins() -> None:
    torch = pytest.importorskip("torch")
    shaders = metalcore.compile_shader(SOURCE)
    y = metalcore.metal_kernel(
        name="endless", input_names=["x"], output_names=["y"], source="while (x[thread_position_in_grid.x] == 0) {}"
    )
    x = torch.zeros(64, dtype=torch.int32)
    with metalcore.mode(timeout=0.03):
        with pytest.raises(LaunchTimeout, match="'endless'"):
            shaders.endless(x, threads=32)
        with pytest.raises(LaunchTimeout, match=r"0.03 s"):
            y(inputs=[x], grid=(32, 1, 1), threadgroup=(32, 1, 1), output_shapes=[(32,)], output_dtypes=[torch.int32])


def test_the_op_library() -> None:
    """Repeated calls, too, which outside of a block run without Python's code."""
    torch = pytest.importorskip("torch")
    x = torch.randn(1 << 12, 1 << 12)
    expected = [metalcore.softmax(x, dim=-1) for _ in range(3)][-1]
    with metalcore.mode(timeout=1e-6):
        for _ in range(3):
            with pytest.raises(LaunchTimeout, match="softmax"):
                metalcore.softmax(x, dim=-1)
    assert torch.equal(metalcore.softmax(x, dim=-1), expected)
