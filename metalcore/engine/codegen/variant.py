"""What machine code is specialised on, and what comes out of a build: plain data that goes through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SIMD_WIDTH = 32


@dataclass(frozen=True)
class Variant:
    """The shape of threadgroup and the mode that one piece of machine code serves."""

    layout: str  # "line": h = d = 1; "rows": w % 32 == 0; "tile:W": w in 1, 2, 4, 8, 16; "any"
    single: bool  # the group is one simdgroup: barriers cost nothing
    checked: bool

    @property
    def key(self) -> str:
        """A short name, fit for a file name: `rows-many-checked`."""
        size, mode = "single" if self.single else "many", "checked" if self.checked else "fast"
        return f"{self.layout.replace(':', '')}-{size}-{mode}"

    @staticmethod
    def choose(group_size: tuple[int, int, int], checked: bool) -> Variant:
        """The most specialised variant for a group size.

        >>> Variant.choose((256, 1, 1), True).key
        'line-many-checked'
        >>> Variant.choose((16, 16, 1), False).key
        'tile16-many-fast'
        """
        w, h, d = group_size
        single = w * h * d <= SIMD_WIDTH
        if h == 1 and d == 1:
            layout = "line"
        elif w % SIMD_WIDTH == 0:
            layout = "rows"
        elif w in (1, 2, 4, 8, 16) and d == 1:
            layout = f"tile:{w}"
        else:
            layout = "any"
        return Variant(layout, single, checked)

    def edge(self) -> Variant:
        """The variant that runs the groups which the grid clips in x."""
        return self if self.layout in ("line", "any") else Variant("any", self.single, self.checked)


@dataclass(frozen=True)
class Site:
    """One memory access of a kernel, as an error names it."""

    file: str
    line: int
    column: int
    access: str  # "load", "store" or "atomic"
    buffer: int | str | None  # slot of [[buffer(slot)]], a threadgroup variable's name, or None where it is not known
    element_size: int


@dataclass(frozen=True)
class ThreadgroupVariable:
    """A `threadgroup` variable of a kernel and where it lies in group memory."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class NativeKernel:
    """A built kernel: a shared object that exports mc_run, and what is known about it."""

    path: str
    sites: tuple[Site, ...]
    static_threadgroup_memory: int
    threadgroup_variables: tuple[ThreadgroupVariable, ...]
    written: tuple[int, ...]  # buffer slots that the kernel may write

    def to_json(self) -> dict[str, Any]:
        """Plain data; `path` is left out, because the cache knows where the file is."""
        data = asdict(self)
        del data["path"]
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any], path: str) -> NativeKernel:
        return NativeKernel(
            path=path,
            sites=tuple(Site(**site) for site in data["sites"]),
            static_threadgroup_memory=data["static_threadgroup_memory"],
            threadgroup_variables=tuple(ThreadgroupVariable(**v) for v in data["threadgroup_variables"]),
            written=tuple(data["written"]),
        )
