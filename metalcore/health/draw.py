"""Fuzzed inputs with a stored seed: awkward sizes, layouts that are not contiguous."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
SIZES = (0, 1, 2, 3, 5, 8, 16, 31, 32, 33, 63, 64, 65, 97, 127, 128, 130, 257, 512, 1000, 1031, 2050)
LAYOUTS = ("contiguous", "contiguous", "contiguous", "transposed", "sliced", "expanded")


@dataclass(frozen=True, eq=False)
class Values:
    """An array to be: its values in float64 or an integer type, and how it lies in memory."""

    values: np.ndarray[Any, Any]
    layout: str = "contiguous"
    is_float: bool = True
    grad: bool = True

    def torch(self, dtype: str, device: str = "cpu") -> Any:
        """A tensor in this dtype (floats only; integers keep theirs) with the layout."""
        import torch

        kind = getattr(torch, dtype) if self.is_float else None
        tensor = torch.tensor(self.values, dtype=kind, device=device)
        if self.layout == "transposed" and tensor.ndim >= 2:
            return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "sliced" and tensor.ndim >= 1:
            room = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1, dtype=tensor.dtype, device=device)
            room[..., 1::2] = tensor
            return room[..., 1::2]
        if self.layout == "expanded" and tensor.ndim >= 2 and tensor.shape[0] > 0:
            return tensor[:1].expand(tensor.shape)
        return tensor

    def numpy(self, dtype: str) -> Any:
        from metalcore.arrays.numpy import dtype_of

        if self.is_float:
            return self._laid_out().astype(dtype_of(dtype))
        return self._laid_out().copy() if self.layout == "contiguous" else self._laid_out()

    def mlx(self, dtype: str) -> Any:
        import mlx.core as mx

        array = mx.array(self._laid_out().astype(np.float32) if self.is_float else self.values)
        array = array.astype(getattr(mx, dtype)) if self.is_float else array
        if self.layout == "transposed" and array.ndim >= 2:
            return mx.contiguous(array.swapaxes(-1, -2)).swapaxes(-1, -2)
        if self.layout == "sliced" and array.ndim >= 1:
            pairs = mx.stack([mx.zeros_like(array), array], axis=-1)
            return pairs.reshape(*array.shape[:-1], 2 * array.shape[-1])[..., 1::2]
        if self.layout == "expanded" and array.ndim >= 2 and array.shape[0] > 0:
            return mx.broadcast_to(array[:1], array.shape)
        return array

    def _laid_out(self) -> np.ndarray[Any, Any]:
        """The values as the layout has them: an expanded array repeats its first row."""
        if self.layout == "expanded" and self.values.ndim >= 2 and self.values.shape[0] > 0:
            return np.broadcast_to(self.values[:1], self.values.shape)
        return self.values


def flat(found: Any) -> list[Any]:
    """The arrays of a result, where it is one or a tuple, in which there may be tuples."""
    return [x for one in found for x in flat(one)] if isinstance(found, (tuple, list)) else [found]


@dataclass(frozen=True)
class Sample:
    """Arguments of an op's public function, with `Values` where arrays go."""

    arguments: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> list[Values]:
        """Every array, also those in tuples."""
        return [v for v in flat((*self.arguments, *self.named.values())) if isinstance(v, Values)]

    def made(self, make: Callable[[Values], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for a call, with what `make` makes of each array."""
        return _made(self.arguments, make), {k: _made(v, make) for k, v in self.named.items()}

    @property
    def label(self) -> str:
        return ", ".join([*map(_shown, self.arguments), *(f"{k}={_shown(v)}" for k, v in self.named.items())])


def _made(value: Any, make: Callable[[Values], Any]) -> Any:
    if isinstance(value, Values):
        return make(value)
    has_arrays = isinstance(value, tuple) and any(isinstance(v, Values) for v in flat(value))
    return tuple(_made(v, make) for v in value) if has_arrays else value


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and any(isinstance(v, Values) for v in value):
        return f"({', '.join(map(_shown, value))})"
    if not isinstance(value, Values):
        return repr(value)
    layout = "" if value.layout == "contiguous" else f" {value.layout}"
    return f"{'x'.join(map(str, value.values.shape)) or 'scalar'}{layout}"


class Draw:
    """Random choices from one seed; `index` counts the cases of an op, so that the awkward sizes all come up early."""

    def __init__(self, seed: int, index: int, most: int = 1 << 16) -> None:
        self._random = np.random.default_rng((seed, index))
        self.index, self.most = index, most
        self._sizes = 0

    def size(self, least: int = 0, most: int = 2050) -> int:
        """A length: the first one of case i is the i-th of SIZES, the others are random ones of them."""
        fitting = [s for s in SIZES if least <= s <= most]
        self._sizes += 1
        return fitting[self.index % len(fitting)] if self._sizes == 1 else self.choice(fitting)

    def leading(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        """Leading dimensions, none to three, small enough that a case stays small."""
        shape: list[int] = []
        for _ in range(self.integer(least, most)):
            room = max(1, self.most // 2048 // max(1, math.prod(shape)))
            shape.append(self.choice([s for s in (0, 1, 2, 3, 5, 7, 16, 33) if s <= room] or [1]))
        return tuple(shape)

    def integer(self, low: int, high: int) -> int:
        """low to high, both included."""
        return int(self._random.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self._random.random() < probability)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[int(self._random.integers(len(items)))]

    def floats(
        self, shape: tuple[int, ...], low: float = -3.0, high: float = 3.0, layout: str = "", grad: bool = True
    ) -> Values:
        """Even random numbers that every dtype of the library holds exactly, so that all runs see the same input."""
        values = self._random.uniform(low, high, shape).astype(np.float32)
        bits = values.view(np.uint32) & np.uint32(0xFFFF0000)  # bfloat16, and float16 in this range
        return Values(np.asarray(bits.view(np.float32), np.float64), layout or self.choice(LAYOUTS), grad=grad)

    def integers(self, shape: tuple[int, ...], low: int, high: int, dtype: str = "int64", layout: str = "") -> Values:
        """low to high, both included."""
        values = self._random.integers(low, high + 1, shape).astype(dtype)
        return Values(values, layout or self.choice(LAYOUTS), is_float=False, grad=False)

    def distinct(self, count: int, below: int, dtype: str = "int64") -> np.ndarray[Any, Any]:
        """`count` different numbers of 0 to below - 1, in random order."""
        return self._random.permutation(below)[:count].astype(dtype)
