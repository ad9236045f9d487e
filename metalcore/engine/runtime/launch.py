"""Everything that is prepared before a launch once metalcore.launch has found it good: machine code, the plan."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Protocol

from metalcore.engine.locks import ForkLock
from metalcore.engine.model import NativeKernel, Variant, says_anything
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.loading import load_shared
from metalcore.engine.runtime.native_library import sanitizer_library
from metalcore.launch import Launch, Shape

if TYPE_CHECKING:
    from metalcore.engine.runtime.binding import Binder, Packed

__all__ = ["Code", "LoadedKernel", "Plan", "Shape"]
_BRIEF = 1 << 20  # threads of a kernel without loops that are done in no time


class Code(Protocol):
    """Machine code of a kernel, in this process or in a worker."""

    @property
    def native(self) -> NativeKernel: ...

    @property
    def variant(self) -> Variant: ...

    @property
    def written(self) -> frozenset[int]: ...

    @property
    def is_remote(self) -> bool: ...

    @property
    def address(self) -> int | None:
        """Of mc_run, where it is in this process."""

    @property
    def cost(self) -> int:
        """Where its cost for a thread is kept, or 0."""

    def sanitize(
        self, kernel: str, plan: Plan, packed: Packed, options: layout.Options, limit: int
    ) -> tuple[int, Packed]:
        """Run in sanitize mode: the status, and the arguments that hold the addresses which events have."""


class LoadedKernel:
    """Machine code in this process."""

    is_remote = False
    __slots__ = ("_cost", "_library", "address", "cost", "native", "variant", "written")

    def __init__(self, native: NativeKernel, variant: Variant) -> None:
        self.native, self.variant = native, variant
        self.written = frozenset(native.written)
        self._library = load_shared(native.path)
        self.address = ctypes.cast(self._library.mc_run, ctypes.c_void_p).value
        self._cost = ctypes.c_uint64(0)
        self.cost = ctypes.addressof(self._cost)

    def sanitize(
        self, kernel: str, plan: Plan, packed: Packed, options: layout.Options, limit: int
    ) -> tuple[int, Packed]:
        status: int = sanitizer_library().mc_sanitize(
            plan.address, packed.data, packed.regions, packed.n_regions, ctypes.byref(options), limit
        )
        return status, packed


class Plan:
    """A launch with everything settled but its arguments; kept, so that the next one like it costs nothing."""

    __slots__ = (
        "_binder",
        "_struct",
        "address",
        "edge",
        "findings",
        "is_sanitized",
        "is_watched",
        "kernel",
        "lock",
        "needs",
        "says",
        "shape",
        "slots",
        "valid",
        "wide",
        "written",
    )

    def __init__(self, kernel: Code, edge: Code, valid: Launch, binder: Binder) -> None:
        shape = valid.shape
        self.kernel, self.edge, self.valid, self.shape = kernel, edge, valid, shape
        self.written = kernel.written | edge.written
        binder.check_written(self.written)
        plan = layout.Plan()
        launch = plan.launch
        launch.grid[:], launch.groups[:], launch.group[:] = shape.grid, shape.groups, shape.group
        launch.group_memory_size = valid.memory
        for index, (offset, size) in valid.placed.items():
            launch.tg_offset[index], launch.tg_size[index] = offset, size
        plan.main_fn, plan.edge_fn, plan.cost = kernel.address, edge.address, kernel.cost
        self._binder = binder  # keeps its rules in memory
        plan.rules, plan.n_slots = binder.rules, binder.slots
        self.slots, self.needs = binder.slots, binder.needs
        plan.written = sum(1 << slot for slot in self.written)
        plan.is_brief = not (kernel.native.has_loops or edge.native.has_loops) and math.prod(shape.grid) <= _BRIEF
        self.is_sanitized = kernel.variant.sanitized
        self.says = says_anything(kernel.native.places)
        self.lock = ForkLock()
        # Not for the fast path: something is to be done with the arguments of each launch.
        self.is_watched = self.is_sanitized or valid.concerns_arguments or kernel.is_remote or self.says
        froms = [n.wide_from for n in (kernel.native, edge.native) if n.wide_from]
        plan.wide_from = min(froms, default=0)
        launch.stack_size = max(kernel.native.stack_size, edge.native.stack_size)
        self.wide: Plan | None = None  # the same for buffers of any size
        self.findings = (layout.Finding * len(kernel.native.places))()  # of the last launch in sanitize mode
        launch.findings = ctypes.addressof(self.findings)
        self._struct = plan
        self.address = ctypes.addressof(plan)

    def say_to(self, address: int | None) -> int | None:
        """Where the next launches' threads say something, and where they did before."""
        launch = self._struct.launch
        before, launch.said = launch.said, address
        return before  # type: ignore[no-any-return]

    def forget_findings(self) -> None:
        ctypes.memset(self.findings, 0, ctypes.sizeof(self.findings))
