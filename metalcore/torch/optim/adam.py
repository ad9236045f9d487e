"""Adam, a drop-in for torch.optim.Adam, and the step that AdamW shares: kernels/adamw.metal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Kernel
from metalcore.torch.optim.fused import SHARED_CONSTANTS, Batch, FusedStep, Row
from metalcore.torch.optim.plan import Steps


def refuse_options(name: str, **options: bool) -> None:
    """Options of torch's optimizers that a kernel in place cannot have."""
    for option, value in options.items():
        if value:
            raise ArgumentError(f"{name}: {option}=True is not supported: use torch.optim.{name}")


class AdamStep(FusedStep):
    """The step of Adam and AdamW."""

    _kernel = Kernel("adamw", "adamw", (*SHARED_CONSTANTS, "amsgrad"))
    _width = 8

    def _state_names(self, group: dict[str, Any]) -> Sequence[str]:
        return "exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else ""

    def _constants(self, group: dict[str, Any]) -> tuple[bool, ...]:
        return (bool(group["amsgrad"]),)

    def _create(self, group: dict[str, Any], state: dict[str, Any], param: torch.Tensor) -> None:
        state["step"] = torch.tensor(0.0, dtype=torch.float32)

    def _rows(self, batch: Batch) -> list[Row]:
        if batch.steps is None:
            batch.steps = Steps([state["step"] for state in batch.states])
        made: dict[tuple[int, float], Row] = {}
        rows = []
        for group, step in zip(batch.groups, batch.steps.advance(), strict=True):
            key = id(group), step
            row = made.get(key)
            if row is None:
                row = made[key] = adam_row(group, step)
            rows.append(row)
        return rows


def adam_row(group: dict[str, Any], step: float) -> Row:
    """What kernels/adamw.metal calls a row of settings."""
    lr, weight_decay = float(group["lr"]), float(group["weight_decay"])
    beta1, beta2 = map(float, group["betas"])
    correction = math.sqrt(1 - beta2**step)
    is_decoupled = group["decoupled_weight_decay"]
    return (
        1 - lr * weight_decay if is_decoupled else 1.0,
        0.0 if is_decoupled else weight_decay,
        1 - beta1,
        beta2,
        1 - beta2,
        lr * correction / (1 - beta1**step),
        float(group["eps"]) * correction,
    )


class Adam(AdamStep, torch.optim.Adam):
    """Adam; arguments and state as those of torch.optim.Adam, the other options as those of metalcore.optim.AdamW."""

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
    ) -> None:
        refuse_options("Adam", capturable=capturable, differentiable=differentiable)
        options = {"maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay}
        torch.optim.Adam.__init__(self, params, lr, betas, eps, weight_decay, amsgrad, **options)
        self._add_options(master_weights, stochastic_rounding, seed)
