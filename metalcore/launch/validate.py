"""The checks before a launch, in one place for every way to launch: engine, drop-ins, and runtimes on a Mac.

Metal drops a launch that is over a limit and returns zeros, so each rule here is an error that names the kernel,
what was given, the limit and what to do. `validate` is called when a launch is planned; a launch like one before costs
nothing. Only requirements that name arguments are looked at each time (`Launch.check_arguments`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from metalcore.errors import LaunchError
from metalcore.launch.declaration import PARTIAL_SIMDGROUPS
from metalcore.launch.device import current_limits
from metalcore.launch.limits import COMMON, SIMD_WIDTH, Limits, ThreadLimit
from metalcore.launch.shape import Shape, extent, shape_of

if TYPE_CHECKING:
    from metalcore.launch.requirements import Conditions

_MOST_MEMORIES = 31  # [[threadgroup(0)]] to [[threadgroup(30)]]
_DECLARE = f"`// metalcore: allows({PARTIAL_SIMDGROUPS})` in the kernel says that it is right as it is"


class Kernel(NamedTuple):
    """What is known of a kernel from its source, the same for every runtime."""

    name: str
    buffers: tuple[tuple[int, str], ...] = ()  # (slot, address space) of each bound argument
    threadgroup_arguments: tuple[tuple[int, str], ...] = ()  # (slot, name)
    max_threads: int | None = None  # [[max_total_threads_per_threadgroup(n)]]
    conditions: Conditions | None = None  # what it declares


class Code(NamedTuple):
    """What is known of a kernel's compiled code."""

    static_memory: int = 0  # threadgroup memory that the kernel declares itself, bytes
    features: frozenset[str] = frozenset()  # of the family table, that it uses
    whole_simdgroups: str = ""  # where it counts its simdgroups as if all were full; empty where it does not


class Launch(NamedTuple):
    """A launch that keeps every rule."""

    kernel: Kernel
    shape: Shape
    placed: Mapping[int, tuple[int, int]]  # offset and size of each [[threadgroup(i)]] behind the static part
    memory: int  # bytes of threadgroup memory, static part included
    unused: tuple[int, ...] = ()  # [[threadgroup(i)]] that have a size and no argument

    def check_arguments(self, argument: Callable[[str], Any]) -> None:
        """Look at what the kernel requires of its arguments; `argument` gives a value by its name."""
        if self.kernel.conditions is not None:
            self.kernel.conditions.check_arguments(self.shape, self.memory, argument)

    @property
    def concerns_arguments(self) -> bool:
        """Whether the arguments of each launch must be looked at."""
        return self.kernel.conditions is not None and bool(self.kernel.conditions.of_arguments)


def describe(
    name: str, arguments: Sequence[Any], max_threads: int | None, conditions: Conditions | None = None
) -> Kernel:
    """A kernel from its signature: arguments have `index`, `name`, `kind`, `space` and `enabled`."""
    return Kernel(
        name,
        tuple((a.index, a.space) for a in arguments if a.kind in ("buffer", "value")),
        tuple((a.index, a.name) for a in arguments if a.kind == "threadgroup" and a.enabled),
        max_threads,
        conditions,
    )


def validate(
    kernel: Kernel,
    *,
    threads: Any = None,
    threadgroups: Any = None,
    group_size: Any = None,
    threadgroup_memory: Mapping[Any, Any] | None = None,
    code: Callable[[Shape], Code] | Code = Code(),  # noqa: B008 (immutable)
    limits: Limits | None = None,
) -> Launch:
    """The launch, or a LaunchError. `code` may be a function, which is called once the shape is known to be good."""
    limits = limits or current_limits()
    check_buffers(kernel, limits)
    if (threads is None) == (threadgroups is None):
        given = "both were given" if threads is not None else "neither was given"
        raise LaunchError(f"kernel '{kernel.name}': a launch needs threads= or threadgroups=, {given}")
    if group_size is None:
        if threads is None:
            raise LaunchError(f"kernel '{kernel.name}': a launch with threadgroups= needs group_size=")
        first = extent(kernel.name, "threads", threads, 0)[0]
        group_size = max(1, min(first, thread_limit(kernel, limits)))
    group = extent(kernel.name, "group_size", group_size, 1)
    check_group(kernel.name, group, thread_limits(kernel, limits), f"group_size={group_size!r}")
    shape = shape_of(kernel.name, threads, threadgroups, group)
    if shape.empty:
        return Launch(kernel, shape, {}, 0)
    _check_nonuniform(kernel, shape, limits)
    known = code if isinstance(code, Code) else code(shape)
    _check_features(kernel, known, limits)
    _check_simdgroups(kernel, shape, known)
    placed, memory = place_memory(kernel, threadgroup_memory, known.static_memory, limits)
    if kernel.conditions is not None:
        kernel.conditions.check_shape(shape, memory)
    named = {index for index, _ in kernel.threadgroup_arguments}
    return Launch(kernel, shape, placed, memory, tuple(index for index in placed if index not in named))


def thread_limits(kernel: Kernel, limits: Limits | None = None) -> tuple[ThreadLimit, ...]:
    """Metal's limit or the family's, the kernel's own, and what a device said of its pipeline, where it is known."""
    limits = limits or current_limits()
    whose = f"the limit of {limits.name}" if limits.name else "Metal's limit"
    found = [ThreadLimit(limits.max_threads, f"{whose} is {limits.max_threads}")]
    own, measured = kernel.max_threads, limits.pipeline_limit(kernel.name)
    if own is not None:
        found.append(ThreadLimit(own, f"the kernel's own maximum is {own} (max_total_threads_per_threadgroup)"))
    if measured is not None:
        said = f"the limit of its pipeline on {limits.name} is {measured} (max_threads of the target)"
        found.append(ThreadLimit(measured, said))
    return tuple(found)


def thread_limit(kernel: Kernel, limits: Limits | None = None) -> int:
    """Most threads that a threadgroup of this kernel may have."""
    return min(limit.threads for limit in thread_limits(kernel, limits))


def check_group(kernel: str, group: Sequence[int], limits: Sequence[ThreadLimit], shown: str, lead: str = "") -> None:
    """Refuse a threadgroup of too many threads, or of none; `lead` is what a framework itself would say."""
    total = math.prod(group)
    lead = f"{lead}: " if lead else ""
    if total == 0:
        raise LaunchError(f"{lead}kernel '{kernel}': {shown} holds no thread: each size must be at least 1")
    for limit in limits:
        if total > limit.threads:
            remedy = "use smaller threadgroups"
            raise LaunchError(f"{lead}kernel '{kernel}': {shown} has {total} threads, {limit.reason}: {remedy}")


def check_buffers(kernel: Kernel, limits: Limits = COMMON) -> None:
    """Metal binds 31 buffers, [[buffer(0)]] to [[buffer(30)]]; some families fewer of them in constant memory."""
    over = [slot for slot, _ in kernel.buffers if slot >= limits.buffers]
    if over:
        limit = f"{limits.owner} binds {limits.buffers} buffers, 0 to {limits.buffers - 1}"
        raise LaunchError(
            f"kernel '{kernel.name}' uses [[buffer({over[0]})]]; {limit}: put several values into one struct"
        )
    constant = sum(space == "constant" for _, space in kernel.buffers)
    if constant > limits.constant_buffers:
        raise LaunchError(
            f"kernel '{kernel.name}' has {constant} arguments in constant memory, {limits.owner} binds "
            f"{limits.constant_buffers}: put several values into one struct"
        )


def _check_nonuniform(kernel: Kernel, shape: Shape, limits: Limits) -> None:
    if limits.features is None or "nonuniform-threadgroups" in limits.features or not shape.is_partial:
        return
    raise LaunchError(
        f"kernel '{kernel.name}': {shape.grid} threads are no multiple of the threadgroup {shape.group}, and "
        f"{limits.name} has no threadgroups of other sizes at the edge: launch whole threadgroups (threadgroups=) "
        "and test the position in the kernel"
    )


def _check_features(kernel: Kernel, code: Code, limits: Limits) -> None:
    if limits.features is None:
        return
    missing = sorted(code.features - limits.features)
    if missing:
        raise LaunchError(
            f"kernel '{kernel.name}' uses {', '.join(missing)}, which {limits.name} does not have: "
            "`metalcore families` shows which do"
        )


def _check_simdgroups(kernel: Kernel, shape: Shape, code: Code) -> None:
    """A reduction in two stages that takes threads / 32 for the number of simdgroups loses a partial simdgroup."""
    if not code.whole_simdgroups:
        return
    if kernel.conditions is not None and PARTIAL_SIMDGROUPS in kernel.conditions.allowed:
        return
    odd = sorted(total for total in shape.group_totals() if total % SIMD_WIDTH)
    if not odd:
        return
    whose = "each threadgroup" if shape.group_totals() == {odd[0]} else "a threadgroup at the edge"
    edge = ", or a grid that is a multiple of it" if len(shape.group_totals()) > 1 else ""
    raise LaunchError(
        f"kernel '{kernel.name}' combines the sums of its simdgroups and counts them as threads / {SIMD_WIDTH} "
        f"({code.whole_simdgroups}), but {whose} has {odd[0]} threads: its last {odd[0] % SIMD_WIDTH} would be lost; "
        f"use a group_size that is a multiple of {SIMD_WIDTH}{edge}, or count with (threads + 31) / 32; {_DECLARE}"
    )


def place_memory(
    kernel: Kernel, given: Mapping[Any, Any] | None, static: int, limits: Limits
) -> tuple[dict[int, tuple[int, int]], int]:
    """Offset and size of each [[threadgroup(i)]] behind the static part, and the bytes of all.

    Metal takes a size for a number that the kernel has no argument for: the bytes count, and nobody sees them.
    """
    names = dict(kernel.threadgroup_arguments)
    if given is not None and not isinstance(given, Mapping):
        raise LaunchError(f"kernel '{kernel.name}': threadgroup_memory={given!r} must be a dict, as in {{0: 1024}}")
    sizes: dict[int, int] = {}
    by_name = {name: index for index, name in names.items()}
    for key, value in (given or {}).items():
        index = by_name.get(key, -1) if isinstance(key, str) else key
        if index not in names and not (type(index) is int and 0 <= index < _MOST_MEMORIES):
            known = ", ".join(f"{i} ('{n}')" for i, n in sorted(names.items())) or "none"
            raise LaunchError(f"kernel '{kernel.name}' has no [[threadgroup({key})]] argument; it has: {known}")
        sizes[index] = _memory_size(kernel.name, key, value, limits.threadgroup_alignment)
    for index, name in names.items():
        if index not in sizes:
            raise LaunchError(
                f"kernel '{kernel.name}': the size of '{name}' is not given: pass threadgroup_memory={{{index}: bytes}}"
            )
    placed: dict[int, tuple[int, int]] = {}
    align = limits.threadgroup_alignment
    end = -(-static // align) * align
    for index, size in sorted(sizes.items()):
        placed[index] = (end, size)
        end += size
    total = end if sizes else static
    if total > limits.threadgroup_memory:
        of = f" of {limits.name}" if limits.name else ""
        raise LaunchError(
            f"kernel '{kernel.name}': {total} bytes of threadgroup memory ({static} static, {total - static} given), "
            f"the limit{of} is {limits.threadgroup_memory}: use smaller tiles, or a smaller type"
        )
    return placed, total


def _memory_size(kernel: str, key: Any, value: Any, align: int) -> int:
    shown = f"kernel '{kernel}': threadgroup_memory[{key!r}]={value!r}"
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LaunchError(f"{shown} must be a number of bytes")
    if value % align:
        up = -(-value // align) * align
        raise LaunchError(f"{shown} must be a multiple of {align} bytes, as Metal wants it: pass {up}")
    return value
