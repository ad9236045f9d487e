"""Tensors of one device as launches take them: what both routes to MPS share."""

from __future__ import annotations

from typing import Any

from metalcore.arrays.torch import TorchArrays, torch_module
from metalcore.errors import ArgumentError
from metalcore.runtimes.kernel import Out
from metalcore.runtimes.slots import Slot, Slots


class MpsTensors:
    """Allocates and checks the tensors of launches on a device."""

    def __init__(self, device: str) -> None:
        torch = torch_module()
        self.device = device
        self.arrays = TorchArrays(device)
        # A buffer that has no memory of its own still needs one: Metal takes no None.
        self.nothing = torch.zeros(16, dtype=torch.uint8, device=device)

    def bound(self, slots: Slots, slot: Slot, value: Any, outputs: list[Any]) -> Any:
        """The tensor that fills a buffer, or a list of them; an `Out` is allocated and added to `outputs`."""
        if type(value) is Out:
            slots.check_dtype(slot, value.dtype)
            value = self.arrays.empty(value.shape, value.dtype)
            outputs.append(value)
        elif value is None:
            return self.nothing
        elif isinstance(value, (list, tuple)):  # the kernel gets an array of their addresses
            return value
        else:
            slots.check_dtype(slot, self.arrays.dtype(value))
            if value.device.type != self.device:
                raise ArgumentError(f"kernel '{slots.kernel}': {slot.name} is on {value.device}, not {self.device}")
        return value if value.nbytes else self.nothing
