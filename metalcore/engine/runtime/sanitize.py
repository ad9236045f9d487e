"""A launch in sanitize mode: what the native runtime is asked for, and its events as findings."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from metalcore.engine.checks.report import Access, Finding, Report
from metalcore.engine.locks import locks
from metalcore.engine.model import LANES, PRIVATE, TABLE, NativeKernel, Site
from metalcore.engine.names import plain_name
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.binding import Packed
from metalcore.engine.runtime.faults import NOWHERE, READ_ONLY, is_near, named_memory, thread_position
from metalcore.engine.runtime.launch import Plan, Shape
from metalcore.errors import LaunchError

if TYPE_CHECKING:
    from metalcore.engine.model import Argument

_VERBS = {layout.LOAD: "read", layout.STORE: "write", layout.ATOMIC: "atomic", layout.ATOMIC_LOAD: "atomic"}
_WORDS = {"read": "a read of", "write": "a write of", "atomic": "an atomic operation on"}
_UNSET = "uninitialised-threadgroup-memory"


_options = layout.Options()  # of the launch under way: there is one at a time
_granules_of: dict[str, tuple[Sequence[Site], bytes]] = {}


class _Running:
    thread = 0  # that has a launch under way

    def __enter__(self) -> None:
        _Running.thread = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        _Running.thread = 0


def run_sanitized(
    kernel: str, plan: Plan, packed: Packed, arguments: Sequence[Argument], report: Report, limit: int = 0
) -> tuple[int, list[Finding]]:
    """Run on one thread and say what was found. limit: as for mc_call."""
    if _Running.thread == threading.get_ident():
        raise LaunchError(
            f"kernel '{kernel}': a signal's handler cannot launch in sanitize mode while such a launch runs"
        )
    with locks.of("sanitize"), _Running():  # a plan has room for the findings of one launch
        plan.forget_findings()
        options = _options
        options.seed = (report.schedule_seed or 0) & (1 << 64) - 1
        options.is_shuffled = report.schedule_seed is not None
        options.unwritten = "unwritten-output" in report.kinds
        options.fresh = packed.fresh
        options.granule[:] = _known_granules(plan.kernel.native)
        options.n_events = options.lost = options.shadow_bytes = 0
        status, packed = plan.kernel.sanitize(kernel, plan, packed, options, limit)
        words = _Words(kernel, plan, arguments, packed)
        places = words.places()
        # Private arrays are tested twice, by their check and, as in checked mode, before the access.
        told = {(f.file, f.line) for f in places if f.kind == "out-of-bounds"}
        events = [words.event(event) for event in options.events[: options.n_events]]
        found = places + [f for f in events if f.kind != "out-of-bounds" or f.buffer or (f.file, f.line) not in told]
        report.lost += options.lost
    return status, _without_followers(found)


def _without_followers(found: list[Finding]) -> list[Finding]:
    """A read that races with the write it should have waited for also sees memory without a value: say it once."""
    raced = set()
    for f in found:
        if f.other is not None:
            raced |= {(f.buffer, f.file, f.line), (f.buffer, f.other.file, f.other.line)}
    return [f for f in found if f.kind != _UNSET or (f.buffer, f.file, f.line) not in raced]


def _known_granules(native: NativeKernel) -> bytes:
    """The same for each launch of a kernel."""
    known = _granules_of.get(native.path)
    if known is None or known[0] is not native.sites:
        known = _granules_of[native.path] = (native.sites, bytes(_granules(native)))
    return known[1]


def _granules(native: NativeKernel) -> list[int]:
    """log2 of the smallest access to each buffer, and to threadgroup memory; 4 bytes at most."""
    smallest = [4] * (layout.BUFFERS + 1)
    for site in native.sites:
        if site.access not in ("load", "store", "atomic"):
            continue
        size = max(1, site.element_size & -site.element_size)
        slots: Sequence[int] = range(len(smallest))
        if isinstance(site.buffer, int):
            slots = [site.buffer]
        elif isinstance(site.buffer, str):
            slots = [layout.GROUP_ROOT]
        for slot in slots:
            smallest[slot] = min(smallest[slot], size)
    return [size.bit_length() - 1 for size in smallest]


class _Words:
    """Turns numbers of the runtime into findings."""

    def __init__(self, kernel: str, plan: Plan, arguments: Sequence[Argument], packed: Packed) -> None:
        self.kernel, self.native, self.plan = kernel, plan.kernel.native, plan
        self.shape: Shape = plan.shape
        self.buffers = {a.index: a for a in arguments if a.kind in ("buffer", "value")}
        self.packed = packed

    def places(self) -> list[Finding]:
        """What hooks of conditions reported."""
        if not bytes(self.plan.findings).strip(b"\0"):
            return []
        found = []
        for place, entry in zip(self.native.places, self.plan.findings, strict=True):
            if entry.count:
                sides = divmod(entry.thread_index, LANES)
                thread, group = self._thread(entry.thread_index, entry.group)
                where = (place.file, place.line, place.column)
                count = entry.count
                found.append(Finding(place.check, self.kernel, *where, thread, group, count, place.detail, *sides))
        return found

    def _thread(self, index: int, group: Sequence[int]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        where = layout.Finding()
        where.group[:], where.thread_index = tuple(group), index
        x, y, z = group
        return thread_position(where, self.shape), (x, y, z)

    def _site(self, number: int) -> Site:
        return self.native.sites[number] if number < len(self.native.sites) else NOWHERE

    def _other_site(self, event: layout.Event, site: Site) -> Site:
        """Where the other access of a race is. A later one may have taken its place: then it is the likeliest line."""
        if event.other_site != layout.NO_SITE:
            return self._site(event.other_site)
        verb = ("load", "store", "atomic")[event.other_access]
        return next((s for s in self.native.sites if s.access == verb and s.buffer == site.buffer), NOWHERE)

    def event(self, event: layout.Event) -> Finding:
        kind = layout.EVENT_KINDS[event.kind]
        site = self._site(event.site)
        if kind == "unwritten-output":
            site = next((s for s in self.native.sites if s.buffer == event.root and s.access != "load"), NOWHERE)
        thread, group = self._thread(event.thread, event.group)
        buffer, index, detail = self._memory(kind, event, site)
        other = None
        other_thread, other_group = self._thread(event.other_thread, event.other_group)
        if event.other_site < len(self.native.sites) or event.other_site == layout.NO_SITE:
            where = self._other_site(event, site)
            verb = _VERBS[event.other_access] if kind != "barrier-divergence" else "barrier"
            other = Access(verb, where.file, where.line, where.column, other_thread, other_group)
        elif kind == "barrier-divergence":
            detail = f"thread {thread} waits here, thread {other_thread} of the same threadgroup does not"
        elif kind == "inactive-lane":
            detail = f"lane {event.thread % LANES} reads lane {event.other_thread % LANES}"
        access = _VERBS[event.access & 0xFF] if buffer else ""
        sides = divmod(event.thread, LANES)
        where_found = (site.file, site.line, site.column)
        found = Finding(kind, self.kernel, *where_found, thread, group, event.count, detail, *sides)
        return replace(found, buffer=buffer, index=index, access=access, other=other)

    def _memory(self, kind: str, event: layout.Event, site: Site) -> tuple[str, int | None, str]:
        """Name of the memory, index in it, and both in words."""
        if kind in ("barrier-divergence", "inactive-lane"):
            return "", None, ""
        verb = _WORDS[_VERBS[event.access & 0xFF]]
        size = site.element_size or 1
        slot = event.root if kind == "unwritten-output" or site.buffer is None else site.buffer
        if isinstance(slot, int) and slot in self.buffers:
            argument = self.buffers[slot]
            size = argument.element_size or size
            name, words = argument.name, f"'{argument.name}' ([[buffer({slot})]])"
            start = event.other_address if kind == "out-of-bounds" else self.packed.address_of(slot)
        elif isinstance(site.buffer, str) and site.buffer.startswith(PRIVATE):
            return "", None, f"{verb} a private array, past an end of it"  # 32 of them lie as one
        elif isinstance(site.buffer, str) and site.buffer.startswith(TABLE):
            name, words, start = site.buffer.removeprefix(TABLE), named_memory(site.buffer), event.other_address
        elif isinstance(site.buffer, str):
            name = plain_name(site.buffer)
            words, size = named_memory(site.buffer), min(size, 4)  # one hook may stand for several elements
            start = event.other_address if kind == "out-of-bounds" else self._offset_of(site.buffer)
        else:
            name, words, start = "", "memory reached through a pointer", event.other_address or event.address
            if kind == "out-of-bounds" and not is_near(event.address, start or 0, (start or 0) + event.size):
                return "", None, f"{verb} memory that none of the arrays bound holds"
        index = (event.address - start) // size
        if kind == "unwritten-output":
            count = event.count * event.size // size
            return name, index, f"{count} elements of {words}, the first at index {index}"
        if kind == "out-of-bounds":
            if not event.other_address and not event.size:
                return name, None, f"{verb} {words}: nothing is bound there"
            if event.access & layout.READ_ONLY:
                return name, index, f"{verb} {words} at index {index}: {READ_ONLY}"
            if event.access & layout.MISALIGNED:
                return name, index, f"{verb} {words} on a misaligned address"
            return name, index, f"{verb} {words} at index {index}, the size is {event.size // size}"
        return name, index, f"{verb} {words} at index {index}"

    def _offset_of(self, variable: str) -> int:
        found = next((v.offset for v in self.native.threadgroup_variables if v.name == variable), None)
        if found is None:  # "threadgroup(0)": its size came with the launch
            found = self.plan.valid.placed[int(variable.removeprefix("threadgroup(").rstrip(")"))][0]
        return found
