"""SGD, a drop-in for torch.optim.SGD: kernels/sgd.metal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from metalcore.runtimes.kernel import Kernel
from metalcore.torch.optim.adam import refuse_options
from metalcore.torch.optim.fused import SHARED_CONSTANTS, Batch, FusedStep, Row


class SGD(FusedStep, torch.optim.SGD):
    """Stochastic gradient descent, with momentum; arguments and state as those of torch.optim.SGD.

    The momentum buffer is float32 whatever the parameters are; the other options are those of metalcore.optim.AdamW.
    """

    _kernel = Kernel("sgd", "sgd", (*SHARED_CONSTANTS, "has_momentum", "nesterov"))
    _width = 5

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | torch.Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
    ) -> None:
        refuse_options("SGD", differentiable=differentiable)
        torch.optim.SGD.__init__(self, params, lr, momentum, dampening, weight_decay, nesterov, maximize=maximize)
        self._add_options(master_weights, stochastic_rounding, seed)

    @property
    def _new(self) -> set[int]:
        """States whose buffer was made in this step, by id."""
        found: set[int] = self.__dict__.setdefault("_new_states", set())
        return found

    def _state_names(self, group: dict[str, Any]) -> Sequence[str]:
        return ("momentum_buffer" if group["momentum"] != 0 else "",)

    def _constants(self, group: dict[str, Any]) -> tuple[bool, ...]:
        return group["momentum"] != 0, bool(group["nesterov"])

    def _note_new(self, state: dict[str, Any], name: str) -> None:
        # The first gradient goes into the buffer whole: dampening starts with the second.
        self._new.add(id(state))

    def _rows(self, batch: Batch) -> list[Row]:
        made: dict[tuple[int, bool], Row] = {}
        rows: list[Row] = []
        for group, state in zip(batch.groups, batch.states, strict=True):
            key = id(group), id(state) in self._new
            row = made.get(key)
            if row is None:
                share = 1.0 if key[1] else 1 - float(group["dampening"])
                decay, momentum = float(group["weight_decay"]), float(group["momentum"])
                row = made[key] = (float(group["lr"]), decay, momentum, share)
            rows.append(row)
        self._new.difference_update(map(id, batch.states))
        return rows
