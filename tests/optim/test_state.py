"""State that goes to torch's optimizers and comes from them, and the ways of torch.optim."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch

from metalcore import optim
from metalcore.errors import ArgumentError
from tests.optim.models import go, train, worst

FLOAT = torch.float32


@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD"])
@pytest.mark.parametrize("to_torch", [True, False])
def test_state_moves_both_ways(name: str, to_torch: bool) -> None:
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {"amsgrad": True}
    modules = (optim, torch.optim) if to_torch else (torch.optim, optim)
    first, second = (lambda p, m=m: getattr(m, name)(p, **options) for m in modules)
    params, one = train(first, FLOAT, 3)
    saved = io.BytesIO()
    torch.save(one.state_dict(), saved)
    saved.seek(0)
    state = torch.load(saved)
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = second(copies)
    other.load_state_dict(state)
    go(one, params, range(3, 6))
    go(other, copies, range(3, 6))
    assert worst(copies, params) < 1e-6
    theirs, ours = other.state_dict(), one.state_dict()
    assert theirs["param_groups"] == ours["param_groups"]
    assert {k: sorted(v) for k, v in theirs["state"].items()} == {k: sorted(v) for k, v in ours["state"].items()}


def test_moments_stay_float32_when_loaded() -> None:
    params, one = train(optim.AdamW, torch.bfloat16, 2)
    other = optim.AdamW([torch.nn.Parameter(p.detach().clone()) for p in params])
    other.load_state_dict(one.state_dict())
    for a, b in zip(params, other.param_groups[0]["params"], strict=True):
        assert other.state[b]["exp_avg"].dtype == FLOAT
        assert torch.equal(other.state[b]["exp_avg"], one.state[a]["exp_avg"])
    torch.optim.AdamW(params).load_state_dict(one.state_dict())
    from_torch = optim.AdamW(params)
    from_torch.load_state_dict(train(torch.optim.AdamW, torch.bfloat16, 2)[1].state_dict())
    assert from_torch.state[params[2]]["exp_avg"].dtype == FLOAT
    copied = copy.deepcopy(one)
    go(copied, copied.param_groups[0]["params"], range(1))
    assert int(copied.state[copied.param_groups[0]["params"][1]]["step"]) == 3


def test_options_of_ours_survive_and_stand_only_where_they_are_on() -> None:
    assert set(optim.AdamW([torch.zeros(1)]).param_groups[0]) == set(
        torch.optim.AdamW([torch.zeros(1)]).param_groups[0]
    )
    params, one = train(lambda p: optim.AdamW(p, stochastic_rounding=True, seed=5), torch.bfloat16, 3)
    other = optim.AdamW([torch.nn.Parameter(p.detach().clone()) for p in params])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    go(one, params, range(3, 5))
    go(other, other.param_groups[0]["params"], range(3, 5))
    for a, b in zip(params, other.param_groups[0]["params"], strict=True):
        assert torch.equal(a, b)


def test_stochastic_rounding_has_the_right_mean() -> None:
    for dtype, start, rate in ((torch.bfloat16, 1.0, 0.001), (torch.float16, 1.0, 1e-4), (torch.float16, 0.0, 1e-8)):
        param = torch.nn.Parameter(torch.full((100_000,), start, dtype=dtype))
        optimizer = optim.SGD([param], lr=rate, stochastic_rounding=True, seed=1)
        param.grad = torch.full_like(param, -1.0)
        optimizer.step()
        moved = (param.detach().double() - start).mean().item()
        step = (param.detach().double() - start).abs().max().item()
        deviation = (rate * step / 100_000) ** 0.5
        assert abs(moved - rate) < 5 * deviation
        first = param.detach().clone()
        with torch.no_grad():
            param.fill_(start)
        optimizer.step()
        assert not torch.equal(first, param)  # another step, other numbers


def test_grad_scaler() -> None:
    ours, plain = ([torch.nn.Parameter(torch.linspace(-2, 2, 65))] for _ in range(2))
    for params, optimizer in ((ours, optim.AdamW(ours)), (plain, torch.optim.AdamW(plain, fused=True))):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=100)
        for step in range(4):
            optimizer.zero_grad()
            factor = float("inf") if step == 1 else 1.0
            scaler.scale((params[0] ** 2).sum() * factor).backward()
            if step == 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.state[params[0]]["step"].item() == 3.0
        assert scaler.get_scale() == 512.0
    assert worst(ours, plain) < 1e-6
    assert ours[0].grad is not None and plain[0].grad is not None
    assert torch.allclose(ours[0].grad, plain[0].grad)  # unscaled in place


def test_what_is_skipped_and_refused() -> None:
    with_gradient, without = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    optimizer = optim.AdamW([with_gradient, without], lr=torch.tensor(0.5))
    optimizer.step()
    assert not optimizer.state
    with_gradient.grad = torch.ones(3)
    version = with_gradient._version
    loss = optimizer.step(lambda: torch.tensor(7.0))
    assert loss.item() == 7.0
    assert with_gradient._version > version
    assert set(optimizer.state) == {with_gradient} and torch.equal(without, torch.ones(3))
    without.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([1.0]), (3,))
    before = with_gradient.detach().clone()
    with pytest.raises(RuntimeError, match="sparse gradients"):
        optimizer.step()
    assert torch.equal(with_gradient, before) and optimizer.state[with_gradient]["step"] == 1
    integer = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    integer.grad = torch.ones_like(integer)
    with pytest.raises(ArgumentError, match="complex64"):
        optim.SGD([integer]).step()
    for bad in ({"lr": -1.0}, {"betas": (1.0, 0.9)}, {"eps": -1.0}, {"weight_decay": -1.0}):
        with pytest.raises(ValueError):
            optim.AdamW([with_gradient], **bad)
    with pytest.raises(ArgumentError, match="betas"):
        optim.Lion([with_gradient], betas=(0.9, 1.0))
    with pytest.raises(ArgumentError, match="differentiable"):
        optim.AdamW([with_gradient], differentiable=True)


def test_groups_schedules_and_hooks() -> None:
    def make(module: Any) -> Any:
        first, second = torch.nn.Parameter(torch.ones(40)), torch.nn.Parameter(torch.ones(33))
        optimizer = module.AdamW([{"params": [first], "weight_decay": 0.0}, {"params": [second], "lr": 0.1}], lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        calls: list[int] = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        for step in range(4):
            first.grad = torch.linspace(-1, 1, 40)
            second.grad = torch.linspace(0, 1, 33) if step % 2 else None  # steps of the two differ
            optimizer.step()
            schedule.step()
        return [first, second], len(calls)

    (ours, calls), (plain, _) = make(optim), make(torch.optim)
    assert worst(ours, plain) < 1e-6 and calls == 4


def test_infinity_and_nan_as_torch() -> None:
    for name in ("AdamW", "SGD"):
        ours, plain = (torch.nn.Parameter(torch.ones(5)) for _ in range(2))
        for param, module in ((ours, optim), (plain, torch.optim)):
            param.grad = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0])
            getattr(module, name)([param]).step()
        assert torch.allclose(ours, plain, equal_nan=True)
