"""A case: one kernel at one size, with everything needed to run it on each side and to check the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.peers import Array, Peers

Call = Callable[[], object]


@dataclass
class Setup:
    """The arrays of a case, in place. Every contestant writes the same output, so that all meet the same memory."""

    output: Array
    reference: NDArray[np.float64]
    tolerance: float  # largest error, relative to `scale`
    traffic: int  # bytes that must be read and written at the least
    ours: Call
    cpp: Callable[[int], Call]  # threads -> call
    torch: Callable[[], Call]
    torch_check: Callable[[], Call] | None = None  # where torch has no out=: the same, with the result copied
    opencl: Callable[[], Call | None] = field(default=lambda: None)
    reset: Call = field(default=lambda: None)  # for kernels that work in place
    scale: float | NDArray[np.float64] = 1.0

    def verify(self, name: str, call: Call) -> None:
        """Runs once on a poisoned output and compares with float64."""
        self.output.fill(np.nan)
        self.reset()
        call()
        error = float(np.max(np.abs(self.output.reshape(self.reference.shape) - self.reference) / self.scale))
        if not error <= self.tolerance:  # a NaN fails too
            raise AssertionError(f"{name}: the result is off by {error:.3g}, allowed is {self.tolerance:.3g}")


@dataclass(frozen=True)
class Case:
    kernel: str
    size: str
    make: Callable[[Peers], Setup]
    cpp_target: float | None  # None: shown only
    torch_target: float | None
    memory_light: bool = False  # two threads are expected to be nearly twice as fast
    quick: bool = True  # small enough for --quick

    @property
    def key(self) -> str:
        return f"{self.kernel} {self.size}"


def aligned(count: int) -> Array:
    """float32 zeros on a 64-byte boundary, as a Metal buffer would be."""
    raw = np.zeros(count * 4 + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * 4].view(np.float32)


def filled(count: int, seed: int, low: float = -4.0, high: float = 4.0) -> Array:
    """Even random numbers."""
    out = aligned(count)
    generator = np.random.default_rng(seed)
    for start in range(0, count, 1 << 20):  # in pieces, so that no large temporary array is made
        part = out[start : start + (1 << 20)]
        part[:] = generator.uniform(low, high, part.size)
    return out
