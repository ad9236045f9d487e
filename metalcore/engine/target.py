"""Whom machine code is for: a system with a family of processors, and one processor of it.

The one place that knows how systems differ for the compiler and the linker; in C it is `runtime/native/os.h`.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from metalcore.errors import UnsupportedFeature

LINUX, MACOS = "linux", "macos"
X86_64, AARCH64 = "x86_64", "aarch64"
MACOS_FROM = "13.0"  # as the wheel of ziglang has it

_MACHINES = {"amd64": X86_64, "x86_64": X86_64, "arm64": AARCH64, "aarch64": AARCH64}
_SYSTEMS = {"Linux": LINUX, "Darwin": MACOS}


@dataclass(frozen=True)
class Platform:
    """A system and a family of processors."""

    system: str  # LINUX or MACOS
    machine: str  # X86_64 or AARCH64

    @property
    def is_macho(self) -> bool:
        """Whether object files are Mach-O; else they are ELF."""
        return self.system == MACOS

    @property
    def triple(self) -> str:
        """LLVM's name."""
        if self.system == MACOS:
            return f"{'arm64' if self.machine == AARCH64 else self.machine}-apple-macosx{MACOS_FROM}.0"
        return f"{self.machine}-unknown-linux-gnu"

    @property
    def zig_name(self) -> str:
        """zig's name. With a version in it zig does not look for Apple's SDK."""
        return f"{self.machine}-macos.{MACOS_FROM}" if self.system == MACOS else f"{self.machine}-linux-gnu"


@dataclass(frozen=True)
class Target:
    """A processor, by LLVM's words. *features* names every one that counts, those that *cpu* implies too."""

    platform: Platform
    cpu: str
    features: tuple[str, ...]  # "+avx2", "-avx512f"

    def has(self, *names: str) -> bool:
        """Whether it has all these features."""
        return all(f"+{name}" in self.features for name in names)


# Whom a binary for many machines is made for: x86-64 since 2013, all of aarch64, all Macs with Apple's processors.
_BASELINES = {
    X86_64: (
        "x86-64-v3",
        *("+sse3", "+ssse3", "+sse4.1", "+sse4.2", "+popcnt", "+cx16", "+avx", "+avx2", "+fma", "+f16c", "+bmi"),
        *("+bmi2", "+lzcnt", "+movbe"),
    ),
    AARCH64: ("generic", "+neon", "+fp-armv8"),
}
_APPLE = ("apple-m1", "+neon", "+fp-armv8", "+fullfp16", "+lse", "+dotprod")


def baseline(where: Platform) -> Target:
    """The least processor of a platform that is worth compiling for ahead of time."""
    cpu, *features = _APPLE if where == Platform(MACOS, AARCH64) else _BASELINES[where.machine]
    return Target(where, cpu, tuple(features))


_HWCAP, _ASIMDHP = 16, 1 << 10  # of Linux's <asm/hwcap.h>


def has_half_arithmetic(where: Platform) -> bool:
    """Whether this machine, which is *where*, computes with half numbers. LLVM asks Linux for less."""
    if where != Platform(LINUX, AARCH64):
        return False
    import ctypes

    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return bool(ask(_HWCAP) & _ASIMDHP)


@functools.cache
def this_platform() -> Platform:
    """The platform of this process; an error where kernels cannot run on it."""
    system, machine = platform.system(), platform.machine()
    if system in _SYSTEMS and machine.lower() in _MACHINES:
        return Platform(_SYSTEMS[system], _MACHINES[machine.lower()])
    more = " (in WSL 2, which is Linux, they run)" if system == "Windows" else ""
    raise UnsupportedFeature(
        f"running kernels on {system} {machine}{more}: Linux or macOS on x86_64 or aarch64 is needed; docs/platforms.md"
    )
