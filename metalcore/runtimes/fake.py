"""Runs no kernel: outputs have their shape and dtype and nothing else. What torch.compile traces an op with."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from metalcore.arrays.torch import TorchArrays
from metalcore.runtimes.host_copies import Pairs
from metalcore.runtimes.kernel import Arguments, Items, Kernel, Out, Size


class _FakeCopies:
    """Numbers are not known; a mapping of the host with arrays of another device is taken all the same."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def pairs(self, mapping: Any) -> Pairs | None:
        return [] if mapping.device.type == "cpu" and self._device.type != "cpu" else None

    def copy(self, source: Any, target: Any, pairs: Pairs) -> None:
        """Nothing."""


class FakeRuntime:
    family = "cpu"
    writes_in_place, keeps_arguments = True, False

    def __init__(self, device: Any) -> None:
        arrays = TorchArrays(device)
        self.host_copies = _FakeCopies(device)
        self.empty, self.dtype, self.cast = arrays.empty, arrays.dtype, arrays.cast
        self.contiguous = arrays.contiguous  # an output may be one: its strides must be those of the real one

    def launch(
        self, kernel: Kernel, types: Items, constants: Items, arguments: Arguments, groups: Size, group_size: Size
    ) -> list[Any]:
        return [self.empty(value.shape, value.dtype) for value in kernel.ordered(arguments) if type(value) is Out]

    def stream(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def check_errors(self, errors: Any, explain: Any) -> None:
        """No kernel ran, so there is no error to find."""

    def check_info(self, info: Any, explain: Any) -> None:
        """No kernel ran."""

    def any_set(self, flags: Any) -> bool:
        return False

    def sort(self, indices: Any) -> tuple[Any, Any]:
        count = indices.numel()
        return self.empty((count,), self.dtype(indices)), self.empty((count,), "int64")
