"""What a launch is held to: the limits that all Apple GPUs since the A11 share, or those of one family."""

from __future__ import annotations

from typing import NamedTuple

SIMD_WIDTH = 32
MAX_POSITION = 1 << 32  # positions in the grid are 32-bit
MAX_THREADS = 1 << 60  # of a launch in all: sizes and times for each stay within 64 bits


class Limits(NamedTuple):
    """The rows of Apple's feature tables that concern a launch; the defaults hold for every family since Apple4."""

    name: str = ""  # as the user chose it: "M1", "Apple7"; empty for the limits common to all
    max_threads: int = 1024
    threadgroup_memory: int = 32 * 1024
    buffers: int = 31
    threadgroup_arguments: int = 31
    constant_buffers: int = 31
    constant_offset_alignment: int = 4
    threadgroup_alignment: int = 16
    features: frozenset[str] | None = None  # None: not asked
    pipeline: tuple[tuple[str, int], ...] = ()  # (kernel, threads) as measured on a device; "" is every kernel

    @property
    def owner(self) -> str:
        """Whose limits these are, for a message."""
        return self.name or "Metal"

    def pipeline_limit(self, kernel: str) -> int | None:
        """What the user said of this kernel's compiled pipeline (maxTotalThreadsPerThreadgroup on a device)."""
        known = dict(self.pipeline)
        return known.get(kernel, known.get(""))


COMMON = Limits()


class ThreadLimit(NamedTuple):
    """How many threads a threadgroup may have, and who says so."""

    threads: int
    reason: str  # "Metal's limit is 1024"
