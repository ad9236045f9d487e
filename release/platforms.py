"""The wheels: their platforms, and the processors whose kernels each brings."""

from __future__ import annotations

from dataclasses import dataclass

from metalcore.engine.target import AARCH64, LINUX, MACOS, X86_64, Platform, Target, baseline

# By LLVM's names, and what Linux calls them in /proc/cpuinfo.
_V3 = dict(avx="avx", avx2="avx2", fma="fma", f16c="f16c", bmi="bmi1", bmi2="bmi2", lzcnt="abm", movbe="movbe")
_V4 = dict(
    avx512f="avx512f", avx512bw="avx512bw", avx512dq="avx512dq", avx512vl="avx512vl", avx512cd="avx512cd",
    avx512vbmi="avx512vbmi", avx512vbmi2="avx512_vbmi2", avx512vnni="avx512_vnni", avx512bitalg="avx512_bitalg",
    avx512vpopcntdq="avx512_vpopcntdq", avx512ifma="avx512ifma",
)  # fmt: skip
_ARM = dict(fullfp16="asimdhp", lse="atomics", dotprod="asimddp")


@dataclass(frozen=True)
class Processor:
    """A folder of metalcore/prebuilt."""

    name: str
    target: Target
    flags: tuple[str, ...] = ()  # of /proc/cpuinfo, without which nothing of it may run
    rank: int = 0  # where a processor may run several, the greatest


@dataclass(frozen=True)
class Wheel:
    """One file: for every Python from 3.10 on, because nothing in it is bound to one."""

    name: str
    tag: str
    system: str  # as Python's platform.system() and platform.machine() have it
    machine: str
    processors: tuple[Processor, ...]

    @property
    def platform(self) -> Platform:
        return self.processors[0].target.platform


_LINUX, _ARM_LINUX, _MAC = Platform(LINUX, X86_64), Platform(LINUX, AARCH64), Platform(MACOS, AARCH64)
_BASE = baseline(_LINUX)
_WIDE = Target(_LINUX, "icelake-server", (*_BASE.features, *(f"+{name}" for name in _V4)))

WHEELS = (
    # The native parts are linked to no library, and what they look up is in every glibc that Python 3.10 runs on.
    Wheel(
        "linux-x86_64", "manylinux_2_17_x86_64", "Linux", "x86_64",
        (
            Processor("x86-64-v3", _BASE, tuple(_V3.values())),
            Processor("avx512-vbmi2", _WIDE, (*_V3.values(), *_V4.values()), rank=1),
        ),
    ),
    Wheel(
        "linux-aarch64", "manylinux_2_17_aarch64", "Linux", "aarch64",
        (
            Processor(
                "armv8.2-a",
                Target(_ARM_LINUX, "generic", (*baseline(_ARM_LINUX).features, *(f"+{name}" for name in _ARM))),
                tuple(_ARM.values()),
            ),
        ),
    ),
    Wheel("macos-aarch64", "macosx_13_0_arm64", "Darwin", "arm64", (Processor("apple-m1", baseline(_MAC)),)),
)  # fmt: skip


def find(name: str) -> Wheel:
    for wheel in WHEELS:
        if wheel.name == name:
            return wheel
    raise SystemExit(f"there is no wheel {name!r}; there are {', '.join(wheel.name for wheel in WHEELS)}")
