"""Lion (arXiv:2302.06675): the sign of a moving average of the gradient. kernels/lion.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Kernel
from metalcore.torch.optim.fused import SHARED_CONSTANTS, Batch, FusedStep, Row


class Lion(FusedStep):
    """Lion, with decoupled weight decay. Its step has the size `lr` everywhere: take a tenth of AdamW's.

    The moving average is float32 whatever the parameters are; the other options are those of metalcore.optim.AdamW.

    >>> import torch, metalcore
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = metalcore.optim.Lion([weight], lr=0.5)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.tolist()
    [0.5, -1.5]
    """

    _kernel = Kernel("lion", "lion", SHARED_CONSTANTS)
    _width = 7

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ArgumentError(f"Lion: lr must be a number or a tensor of one element, not of {lr.numel()}")
        for name, value in (("lr", float(lr)), ("weight_decay", weight_decay)):
            if not value >= 0.0:
                raise ArgumentError(f"Lion: {name} must be a number that is not negative, not {value}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ArgumentError(f"Lion: betas[{i}] must be at least 0 and less than 1, not {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})
        self._add_options(master_weights, stochastic_rounding, seed)

    def _state_names(self, group: dict[str, Any]) -> Sequence[str]:
        return ("exp_avg",)

    def _constants(self, group: dict[str, Any]) -> tuple[bool, ...]:
        return ()

    def _rows(self, batch: Batch) -> list[Row]:
        made: dict[int, Row] = {}
        rows = []
        for group in batch.groups:
            row = made.get(id(group))
            if row is None:
                lr, (b1, b2) = float(group["lr"]), map(float, group["betas"])
                row = made[id(group)] = (1 - lr * float(group["weight_decay"]), lr, b1, 1 - b1, b2, 1 - b2)
            rows.append(row)
        return rows
