"""Tensors whose storage was resized under them, as FSDP does: never more memory is bound than there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import metalcore
from metalcore.errors import ArgumentError

COPY = metalcore.Library("""
struct Args { device const float* x; };
kernel void copy(device const float* x, device float* y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void gather(device const float* constant* x, device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = x[0][i];
}
kernel void member(constant Args& args, device float* y, uint i [[thread_position_in_grid]]) { y[i] = args.x[i]; }
""")
SAID = r"a tensor of shape \(4096,\), 16384 bytes, whose storage was resized and holds {} of them"


def _short(room: int) -> torch.Tensor:
    x = torch.ones(4096)
    x.untyped_storage().resize_(room)
    return x


@pytest.mark.parametrize("mode", ["checked", "sanitize", "fast"])
@pytest.mark.parametrize("room", [0, 4])
def test_arguments(mode: str, room: int) -> None:
    y, said = np.zeros(4096, np.float32), SAID.format(room)
    with metalcore.mode(mode):
        for name, given in (("copy", _short(room)), ("gather", [_short(room)]), ("member", {"x": _short(room)})):
            with pytest.raises(ArgumentError, match=said):
                COPY.function(name)(given, y, threads=4096)
        with pytest.raises(ArgumentError, match=r"'y' .*" + said):
            COPY.function("copy")(y, _short(room), threads=4096)
    assert not y.any()


def test_views_count_from_their_offset() -> None:
    x, y = torch.ones(4096), np.zeros(2048, np.float32)
    tail, head = x[2048:], x[:1024]
    x.untyped_storage().resize_(4096)
    with pytest.raises(ArgumentError, match=r"shape \(2048,\), 8192 bytes, .* holds 0 of them"):
        COPY.function("copy")(tail, y, threads=2048)
    head.fill_(3)
    COPY.function("copy")(head, y, threads=1024)
    assert (y[:1024] == 3).all()


@pytest.mark.parametrize("room", [0, 4])
def test_ops(room: int) -> None:
    """At the first call, and where the launch of another call is repeated in C or in Python."""
    for _ in range(2):
        with pytest.raises(ArgumentError, match=SAID.format(room)):
            metalcore.silu(_short(room))
        assert metalcore.silu(torch.ones(4096)).shape == (4096,)
    with metalcore.mode("fast"), pytest.raises(ArgumentError, match=SAID.format(room)):
        metalcore.silu(_short(room))


@pytest.mark.parametrize("which", ["parameter", "gradient"])
def test_optimizers(which: str) -> None:
    def parameter() -> Any:
        p = torch.nn.Parameter(torch.ones(4096))
        p.grad = torch.ones(4096)
        return p

    for steps in (0, 2):  # afresh, and where a step is kept
        p = parameter()
        optimizer = metalcore.optim.AdamW([p], lr=1e-3)
        for _ in range(steps):
            optimizer.step()
        (p.data if which == "parameter" else p.grad).untyped_storage().resize_(0)
        with pytest.raises(ArgumentError, match=SAID.format(0)):
            optimizer.step()
