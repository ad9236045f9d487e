"""Ten steps against the same in float64: the error is at most twice torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from metalcore import optim
from tests.optim.models import assert_rule, train, worst


def sweep(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.sweep)


CASES: list[Any] = [
    ("AdamW", {"lr": 0.01}, torch.float32),
    ("AdamW", {"amsgrad": True, "maximize": True, "betas": (0.8, 0.95), "weight_decay": 0.1}, torch.float32),
    ("AdamW", {"lr": 0.01}, torch.bfloat16),
    sweep("AdamW", {"lr": 0.01, "eps": 1e-4}, torch.float16),
    ("Adam", {"weight_decay": 0.1}, torch.float32),
    sweep("SGD", {"lr": 0.1}, torch.float32),
    ("SGD", {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1, "maximize": True}, torch.float32),
    sweep("SGD", {"momentum": 0.9, "nesterov": True}, torch.bfloat16),
]


@pytest.mark.parametrize(("name", "options", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_error_rule(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    def run(module: Any, kind: torch.dtype) -> Any:
        return train(lambda params: getattr(module, name)(params, **options), kind)

    (ours, optimizer), (plain, peer) = run(optim, dtype), run(torch.optim, dtype)
    truth, exact = run(torch.optim, torch.float64)
    assert_rule(ours, plain, truth, dtype)
    for mine, theirs, right in zip(ours, plain, truth, strict=True):
        for key, value in exact.state[right].items():
            found = optimizer.state[mine][key]
            assert_rule([found], [peer.state[theirs][key]], [value], torch.float32)


def lion(params: list[Any], lr: float, betas: tuple[float, float], weight_decay: float) -> Any:
    """Lion in plain torch, in the dtype of the parameters."""

    class Plain:
        moments = [torch.zeros_like(p) for p in params]

        @torch.no_grad()
        def step(self) -> None:
            for p, m in zip(params, self.moments, strict=True):
                p.mul_(1 - lr * weight_decay)
                p.add_(torch.sign(m * betas[0] + p.grad * (1 - betas[0])), alpha=-lr)
                m.mul_(betas[1]).add_(p.grad, alpha=1 - betas[1])

    return Plain()


@pytest.mark.parametrize("dtype", [torch.float32, sweep(torch.bfloat16)])
def test_lion(dtype: torch.dtype) -> None:
    options: dict[str, Any] = {"lr": 0.02, "betas": (0.9, 0.99), "weight_decay": 0.1}
    ours, _ = train(lambda params: optim.Lion(params, **options), dtype)
    plain, _ = train(lambda params: lion(params, **options), dtype)
    truth, _ = train(lambda params: lion(params, **options), torch.float64)
    assert_rule(ours, plain, truth, dtype)


def test_float64_runs_on_the_kernels_own_source() -> None:
    ours, _ = train(optim.AdamW, torch.float64)
    truth, _ = train(torch.optim.AdamW, torch.float64)
    assert worst(ours, truth) < 1e-14


LAYOUTS = [("transposed", "transposed"), ("transposed", ""), ("", "transposed"), ("sliced", ""), ("", "sliced")]


@pytest.mark.parametrize(("layout", "grad_layout"), LAYOUTS)
def test_layouts(layout: str, grad_layout: str) -> None:
    ours, optimizer = train(optim.AdamW, torch.float32, 3, layout, grad_layout)
    plain, _ = train(optim.AdamW, torch.float32, 3)
    assert [p.stride() for p in ours] == [p.stride() for p in train(torch.optim.AdamW, torch.float32, 0, layout)[0]]
    for a, b in zip(ours, plain, strict=True):
        assert torch.equal(a, b)
        assert optimizer.state[a]["exp_avg"].shape == a.shape


def test_master_weights_keep_what_bfloat16_loses() -> None:
    def run(kind: torch.dtype, **options: Any) -> list[Any]:
        return train(lambda params: optim.AdamW(params, lr=1e-4, **options), kind)[0]

    truth = run(torch.float64)
    with_master, without = run(torch.bfloat16, master_weights=True), run(torch.bfloat16)
    for a, b, c in zip(with_master, without, truth, strict=True):
        assert torch.equal(a, c.to(torch.bfloat16))
        assert c.numel() < 1000 or not torch.equal(b, a)
