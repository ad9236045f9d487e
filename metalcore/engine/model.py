"""What all stages of the engine share: plain data that one stage makes and a later one reads, and the words for it.

A stage imports this module and the stages in front of it, never one behind it: docs/design/layers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from metalcore import settings
from metalcore.launch.declaration import Requirement

LANES = 32
"""Threads of a simdgroup, which run in lockstep."""

CHECKED, FAST, SANITIZE = "checked", "fast", "sanitize"
"""Modes of a launch: bounds are tested (the default), they are not, everything is reported."""

SPACES = ("", "device", "constant", "threadgroup")
"""Address spaces of an argument, in the order of the enum in include/entry.h."""

SCALARS = (
    *("struct", "pointer", "bool", "float32", "float16", "bfloat16"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "void", "float64"),
)
"""What elements are made of, in the order of the enum in include/entry.h; float64 where float is read as double."""

PRIVATE, TABLE = "private ", "table "
"""In a Site, begins the name of a private array, and of a constant table."""

INITIAL = "mc.initial"
"""The section, with a number behind it, of a threadgroup variable that has its value before the threads start."""

STACK_AROUND = 8 << 20
"""Bytes of stack for what kernels call: the runtime's functions, and Python's handlers of signals."""


@dataclass(frozen=True)
class Argument:
    """One parameter of a kernel that the host can see."""

    name: str
    index: int  # of [[buffer(i)]] or [[threadgroup(i)]]; -1 for a thread attribute
    kind: str  # "buffer" (pointer), "value" (constant T& or device T&), "threadgroup", "builtin" (thread attribute)
    type: str  # MSL spelling of the pointee: "float", "half", "uint3", "MyStruct"
    element_size: int  # sizeof pointee, 1 for void
    element_align: int
    writable: bool  # device and not const
    scalar: str  # one of SCALARS
    lanes: int  # 1, or 2 to 4 for vectors, packed or not
    space: str  # one of SPACES
    enabled: bool  # False where a function constant turns it off: the slot is kept
    attribute: str  # thread attribute for kind "builtin"


@dataclass(frozen=True)
class FunctionConstant:
    """A function constant: `required` where the code uses it and never asks whether it is defined."""

    name: str
    index: int
    type: str
    required: bool


@dataclass(frozen=True)
class ScalarKernel:
    """One kernel as unoptimised scalar LLVM IR, with its signature: what the front end hands on."""

    name: str
    ir: str
    arguments: tuple[Argument, ...]
    max_threads: int | None
    math_mode: str
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Variant:
    """The shape of threadgroup and the mode that one piece of machine code serves."""

    layout: str  # "line": h = d = 1; "rows": w % 32 == 0; "tile:W": w in 1, 2, 4, 8, 16; "any"
    single: bool  # the group is one simdgroup: barriers cost nothing
    checked: bool
    tail: bool = True  # some simdgroup may have fewer than 32 threads
    sanitized: bool = False  # with the hooks of engine/checks
    also: tuple[str, ...] = ()  # kinds of findings that are compiled in on request
    wide: bool = False  # buffers may be so large that a 32-bit index which wrapped around lies inside
    keep_tests: bool = False  # no test of bounds is left out as proven
    covered: bool = False  # it counts the threads that come by each line

    @property
    def key(self) -> str:
        """A short name, fit for a file name: `rows-many-checked`."""
        parts = [
            self.layout.replace(":", ""),
            "single" if self.single else "many",
            "sanitize" if self.sanitized else "checked" if self.checked else "fast",
        ]
        flags = [*["tail"] * self.tail, *["wide"] * self.wide, *["keep-tests"] * self.keep_tests]
        flags += ["covered"] * self.covered
        return "-".join([*parts, *flags, *self.also])

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Variant:
        """From what dataclasses.asdict made of one."""
        return Variant(**{**data, "also": tuple(data["also"])})

    @staticmethod
    def choose(group_size: tuple[int, int, int], checked: bool, grid: tuple[int, int, int] | None = None) -> Variant:
        """The most specialised variant for a group size, and a grid where it is known.

        >>> Variant.choose((256, 1, 1), True).key
        'line-many-checked'
        >>> Variant.choose((16, 16, 1), False).key
        'tile16-many-fast'
        """
        w, h, d = group_size
        single = w * h * d <= LANES
        if h == 1 and d == 1:
            layout = "line"
        elif w % LANES == 0:
            layout = "rows"
        elif w in (1, 2, 4, 8, 16) and d == 1:
            layout = f"tile:{w}"
        else:
            layout = "any"
        tail = _has_tail(group_size, grid or group_size, layout)
        return Variant(layout, single, checked, tail, keep_tests=settings.keep_tests())

    def with_checks(self, also: tuple[str, ...], clipped: bool) -> Variant:
        """The same for sanitize mode, in which all groups of a launch run the same code: it numbers sites once."""
        checked = replace(self, checked=True, sanitized=True, also=also)
        return checked.edge() if clipped else checked

    def edge(self) -> Variant:
        """The variant that runs the groups which the grid clips in x."""
        return self if self.layout in ("line", "any") else replace(self, layout="any", tail=True)


def _has_tail(group: tuple[int, int, int], grid: tuple[int, int, int], layout: str) -> bool:
    """Is there a threadgroup whose number of threads is not a multiple of 32? Groups clipped in x run elsewhere."""
    sizes = []
    for axis, (size, total) in enumerate(zip(group, grid, strict=True)):
        clipped = total % size
        own = {size} if total >= size else set()
        if clipped and (axis > 0 or layout in ("line", "any")):
            own.add(clipped)
        sizes.append(own or {size})
    return any(w * h * d % LANES for w in sizes[0] for h in sizes[1] for d in sizes[2])


@dataclass(frozen=True)
class Site:
    """One memory access of a kernel, as an error names it."""

    file: str
    line: int
    column: int
    access: str  # "load", "store" or "atomic"
    buffer: int | str | None  # slot of [[buffer(slot)]], a variable's name, None: not known
    element_size: int


# Names of places that are no finding of sanitize mode: a line of os_log with its level, and the values in it.
LOG, ASSERTION, COVERED = "log-", "assertion-failed", "covered"
LEVELS = ("default", "debug", "info", "error", "fault")
VALUES = {2: "value-int", 3: "value-uint", 4: "value-float", 5: "value-double", 6: "value-pointer"}


@dataclass(frozen=True)
class Place:
    """What a check of sanitize mode or the kernel itself reports: its name, where, and what else is known of it."""

    check: str
    file: str
    line: int
    column: int
    detail: str = ""


def says_anything(places: Iterable[Place]) -> bool:
    """Whether the kernel has os_log or assert, or counts what comes by its lines."""
    return any(place.check.startswith(LOG) or place.check in (ASSERTION, COVERED) for place in places)


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
    has_loops: bool = True  # it may run for long
    places: tuple[Place, ...] = ()  # of the hooks of sanitize mode
    features: tuple[str, ...] = ()  # rows of launch/families.json that the kernel needs
    whole_simdgroups: str = ""  # where it counts its simdgroups as if all were full
    stack_size: int = STACK_AROUND  # bytes that mc_run may need of its stack
    wide_from: int = 0  # bytes of a buffer from which the wide variant has to run; 0: never
    writes_anywhere: bool = True  # it may write through pointers that came from memory

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
            has_loops=data["has_loops"],
            places=tuple(Place(**place) for place in data["places"]),
            features=tuple(data["features"]),
            whole_simdgroups=data["whole_simdgroups"],
            stack_size=data["stack_size"],
            wide_from=data["wide_from"],
            writes_anywhere=data["writes_anywhere"],
        )
