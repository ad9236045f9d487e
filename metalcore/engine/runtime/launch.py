"""Everything that is checked and prepared before a launch: grid, group, threadgroup memory, machine code."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metalcore.engine.codegen.variant import NativeKernel
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.loading import load_shared
from metalcore.errors import LaunchError

if TYPE_CHECKING:
    from metalcore.engine.runtime.binding import Binder

MAX_THREADS = 1024
MAX_THREADGROUP_MEMORY = 32 * 1024
MAX_BUFFERS = layout.BUFFERS
_BRIEF = 1 << 20  # threads of a kernel without loops that are done in no time
Size = tuple[int, int, int]


class Shape:
    """A validated grid: threads, threadgroups and threads per threadgroup, each in three dimensions."""

    __slots__ = ("grid", "group", "groups")

    def __init__(self, grid: Size, groups: Size, group: Size) -> None:
        self.grid, self.groups, self.group = grid, groups, group

    @property
    def empty(self) -> bool:
        return 0 in self.grid

    @property
    def clipped_in_x(self) -> bool:
        return self.grid[0] % self.group[0] != 0


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


def shape_of(kernel: str, max_threads: int, threads: Any, threadgroups: Any, group_size: Any) -> Shape:
    """The grid of a launch, or a LaunchError that says what was given and what the limit is."""
    if (threads is None) == (threadgroups is None):
        given = "both were given" if threads is not None else "neither was given"
        raise LaunchError(f"kernel '{kernel}': a launch needs threads= or threadgroups=, {given}")
    if group_size is None:
        if threads is None:
            raise LaunchError(f"kernel '{kernel}': a launch with threadgroups= needs group_size=")
        group_size = max(1, min(extent(kernel, "threads", threads, 0)[0], max_threads))
    group = extent(kernel, "group_size", group_size, 1)
    product = group[0] * group[1] * group[2]
    if product > MAX_THREADS:
        raise LaunchError(
            f"kernel '{kernel}': group_size={group_size!r} has {product} threads, Metal's limit is {MAX_THREADS}"
        )
    if product > max_threads:
        raise LaunchError(
            f"kernel '{kernel}': group_size={group_size!r} has {product} threads, "
            f"the kernel's own maximum is {max_threads} (max_total_threads_per_threadgroup)"
        )
    if threads is not None:
        grid = extent(kernel, "threads", threads, 0)
        groups = tuple(-(-n // g) for n, g in zip(grid, group, strict=True))
    else:
        groups = extent(kernel, "threadgroups", threadgroups, 0)
        grid = tuple(n * g for n, g in zip(groups, group, strict=True))  # type: ignore[assignment]
    largest = max(n * g for n, g in zip(groups, group, strict=True))
    if largest >= 1 << 32:
        raise LaunchError(
            f"kernel '{kernel}': the grid is {grid} threads, positions are 32-bit: "
            f"each dimension must stay below {1 << 32} threads"
        )
    return Shape(grid, groups, group)  # type: ignore[arg-type]


def threadgroup_layout(
    kernel: str, names: Mapping[int, str], given: Mapping[Any, Any] | None, static: int
) -> tuple[dict[int, tuple[int, int]], int]:
    """Offset and size of each [[threadgroup(i)]] argument behind the static part, and the bytes of all."""
    sizes: dict[int, int] = {}
    by_name = {name: index for index, name in names.items()}
    for key, value in (given or {}).items():
        index = by_name.get(key, -1) if isinstance(key, str) else key
        if index not in names:
            known = ", ".join(f"{i} ('{n}')" for i, n in sorted(names.items())) or "none"
            raise LaunchError(f"kernel '{kernel}' has no [[threadgroup({key})]] argument; it has: {known}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise LaunchError(f"kernel '{kernel}': threadgroup_memory[{key!r}]={value!r} must be a number of bytes")
        sizes[index] = -(-value // 16) * 16
    for index, name in names.items():
        if index not in sizes:
            raise LaunchError(
                f"kernel '{kernel}': the size of '{name}' is not given: pass threadgroup_memory={{{index}: bytes}}"
            )
    placed: dict[int, tuple[int, int]] = {}
    end = -(-static // 16) * 16
    for index, size in sorted(sizes.items()):
        placed[index] = (end, size)
        end += size
    total = end if sizes else static
    if total > MAX_THREADGROUP_MEMORY:
        raise LaunchError(
            f"kernel '{kernel}': {total} bytes of threadgroup memory ({static} static, {total - static} given), "
            f"the limit is {MAX_THREADGROUP_MEMORY}"
        )
    return placed, total


def check_buffers(kernel: str, slots: Sequence[int]) -> None:
    """Metal binds 31 buffers, [[buffer(0)]] to [[buffer(30)]]."""
    over = [slot for slot in slots if slot >= MAX_BUFFERS]
    if over:
        limit = f"Metal binds {MAX_BUFFERS} buffers, 0 to {MAX_BUFFERS - 1}"
        raise LaunchError(f"kernel '{kernel}' uses [[buffer({over[0]})]]; {limit}")


class LoadedKernel:
    """Machine code in this process."""

    __slots__ = ("_cost", "_library", "address", "cost", "is_sanitized", "native", "written")

    def __init__(self, native: NativeKernel, is_sanitized: bool = False) -> None:
        self.native, self.is_sanitized = native, is_sanitized
        self.written = frozenset(native.written)
        self._library = load_shared(native.path)
        self.address = ctypes.cast(self._library.mc_run, ctypes.c_void_p).value
        self._cost = ctypes.c_uint64(0)
        self.cost = ctypes.addressof(self._cost)


class Plan:
    """A launch with everything settled but its arguments; kept, so that the next one like it costs nothing."""

    __slots__ = ("_binder", "_struct", "address", "edge", "findings", "is_sanitized", "kernel", "shape", "written")

    def __init__(
        self,
        kernel: LoadedKernel,
        edge: LoadedKernel,
        shape: Shape,
        memory: Mapping[int, tuple[int, int]],
        total: int,
        binder: Binder,
    ) -> None:
        self.kernel, self.edge, self.shape = kernel, edge, shape
        self.written = kernel.written | edge.written
        plan = layout.Plan()
        launch = plan.launch
        launch.grid[:], launch.groups[:], launch.group[:] = shape.grid, shape.groups, shape.group
        launch.group_memory_size = total
        for index, (offset, size) in memory.items():
            launch.tg_offset[index], launch.tg_size[index] = offset, size
        plan.main_fn, plan.edge_fn, plan.cost = kernel.address, edge.address, kernel.cost
        self._binder = binder  # keeps its rules in memory
        plan.rules, plan.n_slots = binder.rules, binder.slots
        plan.written = sum(1 << slot for slot in self.written)
        plan.is_brief = not (kernel.native.has_loops or edge.native.has_loops) and math.prod(shape.grid) <= _BRIEF
        self.is_sanitized = kernel.is_sanitized
        self.findings = (layout.Finding * len(kernel.native.places))()  # of the last launch in sanitize mode
        launch.findings = ctypes.addressof(self.findings)
        self._struct = plan
        self.address = ctypes.addressof(plan)

    def forget_findings(self) -> None:
        ctypes.memset(self.findings, 0, ctypes.sizeof(self.findings))
