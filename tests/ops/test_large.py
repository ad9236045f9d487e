"""Tensors of more than 2^31 elements: offsets are 64-bit. Up to 14 GB each: pytest -m sweep tests/ops/test_large.py"""

from __future__ import annotations

import pytest
import torch

import metalcore

ROWS, WIDTH = 2_100_000, 1031  # 2.17e9 elements, a prime width
MORE = 1 << 31


def big() -> torch.Tensor:
    """bfloat16 rows that are zero but for the first and the last ones."""
    x = torch.zeros(ROWS, WIDTH, dtype=torch.bfloat16)
    assert x.numel() > MORE
    torch.manual_seed(3)
    x[:2], x[-2:] = torch.randn(2, WIDTH), torch.randn(2, WIDTH)
    return x


def ends(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:2], x[ROWS // 2 : ROWS // 2 + 1], x[-2:]])


@pytest.mark.sweep
@pytest.mark.parametrize("noun", ["rms_norm", "softmax"])
def test_rows(noun: str) -> None:
    x = big()
    arguments = ((WIDTH,),) if noun == "rms_norm" else (-1,)
    with torch.no_grad():
        y = ends(getattr(metalcore, noun)(x, *arguments))
        alone = getattr(metalcore, noun)(ends(x), *arguments)
        expected = getattr(torch.nn.functional, noun)(ends(x), *arguments)
    assert torch.equal(y, alone)  # the same rows as five of five, bit by bit
    torch.testing.assert_close(y, expected)


@pytest.mark.sweep
def test_elements() -> None:
    x = big()
    with torch.no_grad():
        y = metalcore.silu(x)
    assert torch.equal(ends(y), torch.nn.functional.silu(ends(x)))
    assert not y[2:-2].any()
