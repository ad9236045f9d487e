"""What a step of an optimizer found, kept for the next one: on the CPU a step then costs little more than its launch.

Everything that the launch relies on is looked at again in each step; it is only not made again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import torch

from metalcore.arrays.torch_private import add_to_each
from metalcore.engine import modes
from metalcore.engine.model import FAST
from metalcore.torch.optim.many import Chunks, EngineLaunch, Table, addresses_of, pack

if TYPE_CHECKING:
    from metalcore.torch.optim.fused import Batch


class Kept:
    """One launch: the addresses of its tensors, and the same memory for its tables every time."""

    def __init__(self, batch: Batch, launch: EngineLaunch, rows: Table, keys: Table, chunks: Chunks) -> None:
        self.batch, self.launch, self.rows, self.keys, self.chunks = batch, launch, rows, keys, chunks
        self.params = batch.columns[0] or []
        self.columns = [c for c in batch.columns[2:] if c is not None]
        self.lists = [[t.data_ptr() for t in c] for c in self.columns]
        self.addresses = [None if c is None else addresses_of(c) for c in batch.columns]
        self.param_addresses = [p.data_ptr() for p in self.params]
        self.counts = [p.numel() for p in self.params]
        self.dtypes = [p.dtype for p in self.params]
        self.bound = (*self.addresses, rows, keys, chunks.table(self.params[0].device))
        self.packed = pack(self.bound)
        batch.columns[1] = []  # gradients must not be kept alive

    def fits(self) -> list[int] | None:
        """The gradients' addresses, where all is as it was but these."""
        params = self.params
        if [p.data_ptr() for p in params] != self.param_addresses or [p.numel() for p in params] != self.counts:
            return None
        if [p.dtype for p in params] != self.dtypes or not all([p.is_contiguous() for p in params]):
            return None
        for column, addresses in zip(self.columns, self.lists, strict=True):
            if [t.data_ptr() for t in column] != addresses:
                return None
        grads: list[Any] = [p.grad for p in params]
        try:
            if [g.dtype for g in grads] != self.dtypes or not all([g.is_contiguous() for g in grads]):
                return None
            found = [g.data_ptr() for g in grads]
            return None if 0 in found else found  # one whose storage was freed
        except (AttributeError, RuntimeError):  # none at all, or sparse
            return None

    def run(self, grads: list[int]) -> None:
        addresses = self.addresses[1]
        assert addresses is not None
        addresses[:] = grads
        self.launch.run_packed(self.packed, self.bound, self.chunks.groups, self.chunks.group)


class Plan:
    """All launches of a step, and what they depend on beside tensors."""

    def __init__(self, optimizer: Any, options: list[Any], launches: list[Kept]) -> None:
        self.state, self.options, self.launches = optimizer.state, options, launches
        self.params = _all(optimizer)
        active = {id(p) for kept in launches for p in kept.params}
        self.idle = [p for p in self.params if id(p) not in active]
        self.states = list(optimizer.state.values())
        self.values = [list(s.values()) for s in self.states]

    def matches(self, optimizer: Any, options: list[Any]) -> bool:
        """Whether the same parameters have gradients, with the same state and options."""
        params = _all(optimizer)
        return (
            optimizer.state is self.state
            and options == self.options
            and _same(params, self.params)
            and _same(list(self.state.values()), self.states)
            and all(_same(list(s.values()), v) for s, v in zip(self.states, self.values, strict=True))
            and all(p.grad is None for p in self.idle)
            and (modes.is_default() or modes.current_mode() == FAST)
        )


def _all(optimizer: Any) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _same(found: list[Any], expected: list[Any]) -> bool:
    return len(found) == len(expected) and all(map(is_, found, expected))


class Steps:
    """The `step` tensors of parameters, one float32 number each: moved on without a call of torch for each."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors  # keeps the memory
        plain = all(t.dtype is torch.float32 and t.is_cpu for t in tensors)
        self._numbers = [ctypes.c_float.from_address(t.data_ptr()) for t in tensors] if plain else None

    def advance(self) -> list[float]:
        """Adds 1 to each, and returns them."""
        if self._numbers is None:
            add_to_each(list(self._tensors), 1.0)
            return [t.item() for t in self._tensors]
        found = []
        for number in self._numbers:
            value = number.value + 1.0
            number.value = value
            found.append(value)
        return found
