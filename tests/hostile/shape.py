"""The launch of a hostile kernel: its grid, and what each thread knows of its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.hostile import tree as h

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    threads: Grid
    group: Grid

    @property
    def total(self) -> int:
        return self.threads[0] * self.threads[1] * self.threads[2]

    @property
    def group_counts(self) -> Grid:
        x, y, z = (-(-n // g) for n, g in zip(self.threads, self.group, strict=True))
        return x, y, z

    @property
    def groups(self) -> int:
        x, y, z = self.group_counts
        return x * y * z

    @cached_property
    def places(self) -> dict[str, np.ndarray[Any, np.dtype[np.uint64]]]:
        """Values of the variables that each kernel has, by thread; threads are numbered as `me` is."""
        w, hh, _ = self.threads
        me = np.arange(self.total, dtype=np.uint64)
        xyz = [me % w, me // w % hh, me // (w * hh)]
        group = [p // g for p, g in zip(xyz, self.group, strict=True)]
        inside = [p % g for p, g in zip(xyz, self.group, strict=True)]
        sizes = [
            np.minimum(np.uint64(g), np.uint64(n) - at * np.uint64(g))
            for g, n, at in zip(self.group, self.threads, group, strict=True)
        ]
        tid = (inside[2] * sizes[1] + inside[1]) * sizes[0] + inside[0]
        counts = self.group_counts
        number = (group[2] * np.uint64(counts[1]) + group[1]) * np.uint64(counts[0]) + group[0]
        places = {"me": me, "total": np.full_like(me, self.total), "grp": number, "tid": tid}
        places |= {"lane": tid % np.uint64(32), "sg": tid // np.uint64(32), "gt": sizes[0] * sizes[1] * sizes[2]}
        places |= {"px": xyz[0], "py": xyz[1], "pz": xyz[2]}
        return places

    def elements(self, a: h.Array) -> int:
        """How many elements an array has in this launch."""
        scale = {"": 1, "thread": self.total, "group": self.groups, "simdgroup": self.total // 32}[a.scale]
        return a.count * scale + 2 * a.around

    def bytes(self, a: h.Array) -> int:
        return self.elements(a) * a.element.size


@dataclass
class Launch:
    """One launch: the shape, the numbers in `b` and `v`, and a seed for what arrays hold."""

    shape: Shape
    seed: int
    intent: str = "inside"  # "inside", "edge", "wild"
    params: dict[int, int] = field(default_factory=dict)
    owns: dict[int, list[int]] = field(default_factory=dict)
    fixed: bool = False  # params and owns are given: nothing is chosen
