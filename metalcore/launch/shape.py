"""The grid of a launch: threads, threadgroups and threads per threadgroup, each in three dimensions."""

from __future__ import annotations

import math
import operator
from typing import Any

from metalcore.errors import LaunchError
from metalcore.launch.limits import MAX_POSITION, MAX_THREADS

Size = tuple[int, int, int]


class Shape:
    """A validated grid."""

    __slots__ = ("grid", "group", "groups")

    def __init__(self, grid: Size, groups: Size, group: Size) -> None:
        self.grid, self.groups, self.group = grid, groups, group

    @property
    def empty(self) -> bool:
        return 0 in self.grid

    @property
    def clipped_in_x(self) -> bool:
        return self.grid[0] % self.group[0] != 0

    @property
    def is_partial(self) -> bool:
        """Whether the last threadgroups have fewer threads than the others."""
        return any(n % g for n, g in zip(self.grid, self.group, strict=True))

    def group_totals(self) -> set[int]:
        """How many threads the threadgroups of this launch have, edges included."""
        sizes = []
        for n, g in zip(self.grid, self.group, strict=True):
            sizes.append({size for size in (g if n >= g else 0, n % g) if size})
        return {x * y * z for x in sizes[0] for y in sizes[1] for z in sizes[2]}


def extent(kernel: str, name: str, value: Any, smallest: int) -> Size:
    """One to three integers as three, the missing ones 1."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"kernel '{kernel}': {name}={value!r} has {len(items)} dimensions, a grid has one to three")
    sizes = []
    for item in items:
        try:
            size = -1 if isinstance(item, bool) else operator.index(item)
        except TypeError:
            size = -1
        if size < smallest:
            needed = "positive ints" if smallest else "ints that are not negative"
            raise LaunchError(f"kernel '{kernel}': {name}={value!r} must be {needed}")
        sizes.append(size)
    return tuple(sizes + [1] * (3 - len(sizes)))  # type: ignore[return-value]


def shape_of(kernel: str, threads: Any, threadgroups: Any, group: Size) -> Shape:
    """The grid in threads and in threadgroups, each dimension within 32 bits."""
    if threads is not None:
        grid = extent(kernel, "threads", threads, 0)
        groups = tuple(-(-n // g) for n, g in zip(grid, group, strict=True))
    else:
        groups = extent(kernel, "threadgroups", threadgroups, 0)
        grid = tuple(n * g for n, g in zip(groups, group, strict=True))  # type: ignore[assignment]
    for axis, n, g in zip("xyz", groups, group, strict=True):
        if n * g >= MAX_POSITION:
            raise LaunchError(
                f"kernel '{kernel}': the grid is {grid} threads, and positions are 32-bit: "
                f"dimension {axis} must stay below {MAX_POSITION} threads, edge threadgroups filled up; "
                "split the launch, or use another dimension"
            )
    total = math.prod(groups) * math.prod(group)
    if total >= MAX_THREADS:  # no machine gets there, and 64 bits would not count it
        raise LaunchError(
            f"kernel '{kernel}': the grid is {grid} threads, {total} in all with edge threadgroups filled up, and a "
            f"launch has fewer than {MAX_THREADS}: split the launch"
        )
    return Shape(grid, groups, group)  # type: ignore[arg-type]
