"""Copies of whole blocks by pairs that the host knows: no kernel, and nothing is waited for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from metalcore.runtimes.mps_tensors import place
from metalcore.runtimes.native_torch import Extension

Pairs = Sequence[tuple[int, int]]
_MULTIPLE = 4  # bytes: of what a blit copies on macOS


class HostCopies(Protocol):
    """How a runtime copies blocks itself."""

    def pairs(self, mapping: Any) -> Pairs | None:
        """What a mapping of the host says; None for one in the device's memory, which only a kernel can look at."""

    def copy(self, source: Any, target: Any, pairs: Pairs) -> None:
        """target[to] = source[from] for each pair, which is in range and independent of the others."""


class TorchCopies:
    """By torch, block by block."""

    def __init__(self, device: str) -> None:
        self._device = device

    def pairs(self, mapping: Any) -> Pairs | None:
        if not mapping.is_cpu or self._device == "cpu":
            return None
        return [(a, b) for a, b in mapping.tolist()]

    def copy(self, source: Any, target: Any, pairs: Pairs) -> None:
        for a, b in pairs:
            target[b].copy_(source[a])


class Blits:
    """By one blit encoder of the native extension."""

    def __init__(self, extension: Extension, device: str) -> None:
        self._extension, self._by_torch = extension, TorchCopies(device)

    def pairs(self, mapping: Any) -> Pairs | None:
        return self._by_torch.pairs(mapping)

    def copy(self, source: Any, target: Any, pairs: Pairs) -> None:
        size = math.prod(target.shape[1:]) * target.element_size()
        (from_buffer, first), (to_buffer, begin) = place(source), place(target)
        if (size | first | begin) % _MULTIPLE:
            self._by_torch.copy(source, target, pairs)
            return
        is_one = (from_buffer, first) == (to_buffer, begin)
        copies = [
            (from_buffer, first + a * size, to_buffer, begin + b * size, size)
            for a, b in pairs
            if size and not (is_one and a == b)  # a block onto itself is there already
        ]
        if copies:
            self._extension.copy(copies)
