"""AdamW, a drop-in for torch.optim.AdamW: kernels/adamw.metal."""

from __future__ import annotations

from typing import Any

import torch

from metalcore.torch.optim.adam import AdamStep, refuse_options


class AdamW(AdamStep, torch.optim.AdamW):
    """Adam with decoupled weight decay; arguments and state as those of torch.optim.AdamW.

    Moments are float32 whatever the parameters are. For parameters in float16 or bfloat16, `master_weights` keeps
    float32 copies that are updated in their place, and `stochastic_rounding` rounds each new value up or down by
    chance, with random numbers that depend on `seed` (by default torch's), the step and the place alone. `foreach` and
    `fused` choose among torch's implementations and mean nothing here.

    >>> import torch, metalcore
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = metalcore.optim.AdamW([weight], lr=0.5, weight_decay=0.0)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 5) for x in weight.tolist()]
    [0.5, -1.5]
    """

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
    ) -> None:
        refuse_options("AdamW", capturable=capturable, differentiable=differentiable)
        torch.optim.AdamW.__init__(self, params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
        self._add_options(master_weights, stochastic_rounding, seed)
