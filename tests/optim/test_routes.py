"""The kernels under the sanitizer, and the text that torch.mps.compile_shader gets, through the engine's drop-in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metalcore
from metalcore import optim
from metalcore.torch.optim import clip, fused, many


def sweep(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.sweep)


SHAPES = ((33,), (5, 7), (1,), (9000,))


def parameters(dtype: torch.dtype) -> list[torch.nn.Parameter]:
    random = torch.Generator().manual_seed(3)
    params = [torch.nn.Parameter(torch.randn(s, generator=random).to(dtype)) for s in SHAPES]
    for param in params:
        param.grad = torch.randn(param.shape, generator=random).to(dtype)
    return params


def everything(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """One step of an optimizer, or the clipping of gradients; all that was written."""
    params = parameters(dtype)
    if name == "clip_grad_norm_":
        return [optim.clip_grad_norm_(params, 1.0), *(p.grad for p in params if p.grad is not None)]
    options: dict[str, Any] = {"AdamW": {"amsgrad": True}, "SGD": {"momentum": 0.9}, "Lion": {}}[name]
    optimizer = getattr(optim, name)(params, maximize=True, master_weights=True, stochastic_rounding=True, **options)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(0.0)
    optimizer.step()
    states = [value for p in params for value in optimizer.state[p].values()]
    return [*params, *states, *(p.grad for p in params if p.grad is not None)]


@pytest.mark.parametrize("name", ["AdamW", "SGD", "Lion", "clip_grad_norm_"])
def test_sanitizer_has_no_finding(name: str) -> None:
    expected = everything(name, torch.bfloat16)
    with metalcore.mode("sanitize") as report:
        found = everything(name, torch.bfloat16)
    assert not report.findings
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["AdamW", *map(sweep, ("SGD", "Lion", "clip_grad_norm_"))])
def test_the_text_for_compile_shader(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = everything(name, torch.bfloat16)

    def shader(kernel: Any, dtype: torch.dtype, constants: tuple[object, ...], device: str) -> many.Launch:
        return many.ShaderLaunch(kernel.variant((many.DTYPES[dtype],), constants), metalcore.compile_shader)

    for module in (fused, clip):
        monkeypatch.setattr(module, "launch_of", shader)
        monkeypatch.setattr(module, "most_tensors", lambda device: 3)  # two launches
    found = everything(name, torch.bfloat16)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=0.0)


def test_on_an_emulated_mac() -> None:
    def run(device: str) -> list[torch.Tensor]:
        params = [torch.nn.Parameter(p.detach().to(device)) for p in parameters(torch.float32)]
        optimizer = optim.AdamW(params)
        for param, other in zip(params, parameters(torch.float32), strict=True):
            assert other.grad is not None
            param.grad = other.grad.to(device)
        optim.clip_grad_norm_(params, 1.0)
        optimizer.step()
        assert optimizer.state[params[0]]["exp_avg"].device.type == device
        return [p.detach().cpu() for p in params]

    expected = run("cpu")
    with metalcore.emulate():
        found = run("mps")
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(found, expected, strict=True))


def test_compiled_code_may_step() -> None:
    ours, plain = parameters(torch.float32), parameters(torch.float32)
    optimizer, other = optim.AdamW(ours), optim.AdamW(plain)
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    for _ in range(2):
        step()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, plain, strict=True))
