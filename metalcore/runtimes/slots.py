"""What fills each buffer of a kernel that a framework compiles from text: checked here, since neither framework does.

PyTorch binds whatever tensor it is given and passes an int as 64 bits even where the kernel reads a float; MLX declares
a parameter with the type of the array that came.
"""

from __future__ import annotations

import math

from metalcore.errors import ArgumentError, LaunchError
from metalcore.runtimes.kernel import Kernel, Parameter, Variant
from metalcore.runtimes.text import parameter_dtypes

NUMBERS = {"long": int, "float": float}
MOST_THREADS = 1024
GRID_LIMIT = 1 << 32


class Slot:
    """One buffer: its parameter in the Metal file, and the dtype that it holds in this variant."""

    __slots__ = ("convert", "dtype", "name", "parameter")

    def __init__(self, parameter: Parameter, dtype: str) -> None:
        self.parameter, self.dtype, self.name = parameter, dtype, parameter.name
        self.convert = NUMBERS.get(parameter.type) if parameter.kind == "value" else None


class Slots:
    """The buffers of one variant, in order."""

    def __init__(self, variant: Variant) -> None:
        self.variant, self.kernel = variant, variant.kernel.name
        buffers = [p for p in variant.kernel.parameters if p.kind != "thread"]
        self.slots = [Slot(p, dtype) for p, dtype in zip(buffers, parameter_dtypes(variant), strict=True)]
        self.outputs = [i for i, slot in enumerate(self.slots) if slot.parameter.kind == "output"]

    def check_dtype(self, slot: Slot, dtype: str) -> None:
        if slot.dtype and dtype != slot.dtype:
            raise ArgumentError(f"kernel '{self.kernel}': {slot.name} holds {slot.dtype}, not {dtype}")


def make_variant(kernel: Kernel, types: tuple[object, ...], constants: tuple[object, ...]) -> Variant:
    """A variant that a GPU can have."""
    if "float64" in types:
        raise ArgumentError(f"kernel '{kernel.name}': Metal has no float64; the engine has, on CPU arrays")
    return kernel.variant(types, constants)


def launch_size(
    kernel: Kernel, groups: tuple[int, ...], group_size: tuple[int, ...], limit: int = GRID_LIMIT
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """All threads and those of a group, in three dimensions. Metal drops a launch over its limits without a word."""
    (a, b, c), group = (*groups, 1, 1)[:3], (*group_size, 1, 1)[:3]
    grid = (a * group[0], b * group[1], c * group[2])
    if math.prod(group) > MOST_THREADS or 0 in group:
        raise LaunchError(f"kernel '{kernel.name}': a threadgroup of {group} threads; Metal has 1 to {MOST_THREADS}")
    if max(grid) >= limit:
        raise LaunchError(f"kernel '{kernel.name}': {grid} threads; there are fewer than {limit} on each axis")
    return grid, (group[0], group[1], group[2])
