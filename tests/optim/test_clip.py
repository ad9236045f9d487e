"""clip_grad_norm_ against torch's."""

from __future__ import annotations

import math

import pytest
import torch

from metalcore.errors import ArgumentError
from metalcore.optim import clip_grad_norm_
from tests.optim.models import assert_rule, laid_out, values

SHAPES = ((1,), (31,), (33, 65), (), (40009,))


def parameters(dtype: torch.dtype, layout: str = "") -> list[torch.nn.Parameter]:
    params = [torch.nn.Parameter(torch.zeros(v.shape, dtype=dtype)) for v in values(shapes=SHAPES)]
    for param, value in zip(params, values(1, SHAPES), strict=True):
        param.grad = laid_out(value.to(dtype), layout)
    return params


@pytest.mark.parametrize("norm_type", [2.0, math.inf, *(pytest.param(p, marks=pytest.mark.sweep) for p in (1.0, 3.0))])
@pytest.mark.parametrize("max_norm", [1.0, 1e9])
def test_against_torch(norm_type: float, max_norm: float) -> None:
    runs = []
    for clip, dtype in (
        (clip_grad_norm_, torch.float32),
        (torch.nn.utils.clip_grad_norm_, torch.float32),
        (torch.nn.utils.clip_grad_norm_, torch.float64),
    ):
        params = parameters(dtype)
        norm = clip(params, max_norm, norm_type)
        assert norm.shape == () and norm.dtype == dtype
        runs.append([norm, *(p.grad for p in params)])
    assert_rule(*runs, torch.float32)


def test_low_precision_mixed_dtypes_and_layouts() -> None:
    ours, plain = (parameters(torch.bfloat16, "sliced") + parameters(torch.float32, "transposed") for _ in range(2))
    norm, expected = clip_grad_norm_(ours, 1.0), torch.nn.utils.clip_grad_norm_(plain, 1.0)
    assert norm.dtype == expected.dtype
    assert norm.item() == pytest.approx(expected.item(), rel=1e-2)  # torch rounds the parts to bfloat16
    for a, b in zip(ours, plain, strict=True):
        assert a.grad is not None and b.grad is not None and a.grad.stride() == b.grad.stride()
        assert torch.allclose(a.grad, b.grad, rtol=2e-2)


def test_same_bits_in_every_run() -> None:
    norms = {clip_grad_norm_(parameters(torch.float32), 1.0).item() for _ in range(4)}
    assert len(norms) == 1


def test_nothing_and_what_is_not_finite() -> None:
    param = torch.nn.Parameter(torch.zeros(3))
    assert clip_grad_norm_([param], 1.0).item() == 0.0
    assert clip_grad_norm_([], 1.0).item() == 0.0
    empty = torch.nn.Parameter(torch.zeros(0))
    empty.grad = torch.zeros(0)
    assert clip_grad_norm_(empty, 1.0).item() == 0.0
    for value in (math.nan, math.inf):
        param.grad = torch.tensor([1.0, value, 2.0])
        with pytest.raises(RuntimeError, match="error_if_nonfinite"):
            clip_grad_norm_([param], 1.0, error_if_nonfinite=True)
        assert param.grad[0] == 1.0
        other = torch.nn.Parameter(torch.zeros(3))
        other.grad = param.grad.clone()
        norms = clip_grad_norm_([param], 1.0), torch.nn.utils.clip_grad_norm_([other], 1.0)
        assert torch.allclose(*norms, equal_nan=True)
        assert torch.allclose(param.grad, other.grad, equal_nan=True)
    complex_one = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    complex_one.grad = torch.ones_like(complex_one)
    with pytest.raises(ArgumentError, match="complex64"):
        clip_grad_norm_([complex_one], 1.0)
