"""What a launch did wrong, in words: kernel, MSL line, thread, buffer, index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metalcore.diagnostics.launched import launch_line
from metalcore.engine.model import PRIVATE, TABLE, Site
from metalcore.engine.names import plain_name
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.launch import Shape
from metalcore.errors import ArgumentError, KernelFault

if TYPE_CHECKING:
    from metalcore.engine.model import Argument

NOWHERE = Site("?", 0, 0, "load", None, 1)
_VERBS = {
    layout.LOAD: "read",
    layout.STORE: "write",
    layout.ATOMIC: "atomic operation",
    layout.ATOMIC_LOAD: "atomic read",
}
_REFUSALS = {0: "out of bounds", layout.READ_ONLY: "on read-only memory", layout.MISALIGNED: "on a misaligned address"}
_NULL = 1 << 16  # addresses below are null, or a member or an element of it
_NEAR = 4096  # bytes
READ_ONLY = "it is a read-only array, or the kernel declares it const or constant"


def thread_position(error: layout.Error | layout.Finding, shape: Shape) -> tuple[int, int, int]:
    """Position in the grid of the thread that failed; groups at the edge of the grid are smaller."""
    group = tuple(error.group)
    left = [n - at * g for n, at, g in zip(shape.grid, group, shape.group, strict=True)]
    w, h = (max(1, min(n, g)) for n, g in zip(left[:2], shape.group[:2], strict=True))
    index = error.thread_index
    if shape.group[1] == shape.group[2] == 1:  # neighbouring groups may have been run as one
        return group[0] * shape.group[0] + index, group[1], group[2]
    local = (index % w, index // w % h, index // (w * h))
    x, y, z = (at * g + i for at, g, i in zip(group, shape.group, local, strict=True))
    return x, y, z


def named_memory(buffer: str) -> str:
    """A table or a threadgroup variable, as a site calls it, in words."""
    if not buffer.startswith(TABLE):
        return f"threadgroup memory '{plain_name(buffer)}'"
    table = buffer.removeprefix(TABLE)
    return f"constant table '{table}'" if table else "a string"


def is_near(address: int, lo: int, hi: int) -> bool:
    """Whether an address that a pointer led to is in an array, or so little past its end that this one was meant. An
    index of one that is elsewhere means nothing, and would tell where other memory lies."""
    return bool(hi) and lo <= address < hi + max(hi - lo, _NEAR)


def _where(error: layout.Error, site: Site, arguments: Sequence[Argument]) -> str:
    lo, hi, address = error.lo or 0, error.hi or 0, error.addr or 0
    argument = next((a for a in arguments if a.index == site.buffer and a.kind in ("buffer", "value")), None)
    if argument is not None:
        name = f"buffer '{argument.name}' ([[buffer({site.buffer})]], {argument.type})"
        size = argument.element_size or site.element_size or 1
        if not lo and not hi:
            return f"{name}: nothing is bound there"
    elif isinstance(site.buffer, str) and site.buffer.startswith(PRIVATE):
        return f"past an end of the private array '{site.buffer.removeprefix(PRIVATE)}'"  # 32 of them lie as one
    elif isinstance(site.buffer, str):
        name, size = named_memory(site.buffer), site.element_size or 1
    elif not is_near(address, lo, hi):
        shown = f"address {address:#x}" if address < _NULL else "its address"
        return f"a pointer loaded from memory: {shown} lies in none of the arrays bound"
    else:
        name, size = "an array reached through a pointer", site.element_size or 1
    count = (hi - lo) // size
    index, rest = divmod(address - lo, size)
    inside = f" (byte {rest} of it)" if rest else ""
    return f"{name}: index {index}{inside}, the size is {count} ({hi - lo} bytes)"


def fault(
    kernel: str, error: layout.Error, shape: Shape, sites: Sequence[Site], arguments: Sequence[Argument]
) -> KernelFault:
    """The error to raise for a launch that went out of bounds."""
    site = sites[error.site] if error.site < len(sites) else NOWHERE
    line = f"{site.file}:{site.line}" + (f":{site.column}" if site.column else "")
    more = f"; {error.count - 1} more in this launch" if error.count > 1 else ""
    verb, refusal = _VERBS.get(error.kind & 0xFF, "access"), error.kind & ~0xFF
    why = f"; {READ_ONLY}" if refusal == layout.READ_ONLY else ""
    where = _where(error, site, arguments)
    return KernelFault(
        f"kernel '{kernel}': {verb} {_REFUSALS[refusal]} at {line} "
        f"by thread {thread_position(error, shape)} of the grid: {where}{why}{more}{launched()}"
    )


def launched() -> str:
    """The end of a fault's message: the line of the program."""
    line = launch_line()
    return f" (launched at {line})" if line else ""


def too_small(kernel: str, error: layout.Error, arguments: Sequence[Argument]) -> ArgumentError:
    """The error to raise for a launch that did not start: an argument has fewer bytes than its type."""
    slot, given = error.site, error.count
    argument = next(a for a in arguments if a.index == slot and a.kind == "value")
    return ArgumentError(
        f"kernel '{kernel}', argument {slot} '{argument.name}' ({argument.space} {argument.type}&): "
        f"it needs {argument.element_size} bytes, and {given} are bound"
    )
