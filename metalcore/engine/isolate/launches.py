"""A launch in the worker, seen from here: where its memory lies there, what is sent, what comes back."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from metalcore.engine.isolate.launcher import LAUNCH, LISTEN, REGION, REPLY, REQUEST, SANITIZE
from metalcore.engine.isolate.memory import Arena, Segment, code_file, known
from metalcore.engine.isolate.messages import (
    PACKET,
    Nonsense,
    WorkerGone,
    exchange,
    integer,
    plain_text,
    receive_packet,
    send_packet,
)
from metalcore.engine.isolate.placement import LINE, Placement
from metalcore.engine.isolate.sandbox import Sandbox, Worker, size_text
from metalcore.engine.runtime import layout
from metalcore.errors import IsolationError, IsolationTimeout

if TYPE_CHECKING:
    from metalcore.engine.isolate.unit import RemoteKernel
    from metalcore.engine.runtime.binding import Packed
    from metalcore.engine.runtime.launch import Plan

_SMALLEST_ARENA = 1 << 20
_IN_MESSAGE = PACKET // 2
_SETTLE = 30.0  # seconds for what comes before a launch
_KEPT_PLANS = 512
_MOST_SAYINGS = 1 << 12
_STATUSES = layout.STOPPED | layout.FAULT | layout.NO_MEMORY | layout.TOO_WIDE | layout.TOO_SMALL | layout.APART
_NOT_STARTED = layout.TOO_WIDE | layout.TOO_SMALL
_TOP = 1 << 47


class Launcher(Worker):
    """The worker that runs kernels, and what it knows by now."""

    def __init__(self, kind: str, options: dict[str, Any], kind_of_socket: int) -> None:
        super().__init__(kind, options, kind_of_socket)
        self.arena: Arena | None = None
        self.number = 0
        self.is_busy = False
        self._arena_there = 0
        self._kernels: dict[RemoteKernel, int] = {}
        self._plans: dict[int, tuple[Plan, int]] = {}
        self._segments: dict[tuple[Segment, bool], int] = {}
        self._heads: dict[tuple[int, bytes], bytes] = {}  # addresses and sizes here, and what they are there
        self._heads_of = 0

    def ask(self, request: dict[str, Any], *descriptors: int) -> dict[str, Any]:
        answer = exchange(self.link, request, descriptors, _SETTLE)
        if "error" in answer:
            raise IsolationError(f"the isolated worker could not do '{request['op']}': {plain_text(answer['error'])}")
        return answer

    def _kernel(self, kernel: RemoteKernel) -> int:
        number = self._kernels.get(kernel)
        if number is None:
            native = kernel.native
            request = {
                "op": "kernel",
                "static": native.static_threadgroup_memory,
                "written": native.written,
                "has_loops": native.has_loops,
                "places": len(native.places),
                "stack_size": native.stack_size,
                "wide_from": native.wide_from,
                "variant": dataclasses.asdict(kernel.variant),
            }
            code = code_file(kernel.code)
            try:
                number = integer(self.ask(request, code).get("number"), 0, 1 << 31)
            finally:
                os.close(code)
            self._kernels[kernel] = number
        return number

    def plan(self, plan: Plan) -> int:
        """The worker's number of a plan."""
        found = self._plans.get(id(plan))
        if found is not None:
            return found[1]
        shape, valid = plan.shape, plan.valid
        kernel: Any = plan.kernel
        edge: Any = plan.edge
        number = len(self._plans)
        if number >= _KEPT_PLANS:
            self._plans.clear()
            self._heads.clear()
            number = 0
        request = {
            "op": "plan",
            "number": number,
            "kernel": self._kernel(kernel),
            "edge": self._kernel(edge),
            "grid": shape.grid,
            "groups": shape.groups,
            "group": shape.group,
            "placed": {str(slot): place for slot, place in valid.placed.items()},
            "memory": valid.memory,
            "rules": plan.needs,
        }
        self.ask(request)
        self._plans[id(plan)] = plan, number  # keeps the plan, so that its id stays its own
        return number

    def room(self, size: int) -> tuple[int, int]:
        """Where the arena starts here and there; it has at least this size."""
        if self.arena is None or self.arena.segment.size < size:
            if self.arena is not None:
                self.ask({"op": "unmap", "address": self._arena_there, "size": self.arena.segment.size})
                self.arena.close()
            self.arena = Arena(max(_SMALLEST_ARENA, 1 << (size - 1).bit_length()))
            self._arena_there = self._map(self.arena.segment, True)
        return self.arena.segment.address, self._arena_there

    def _map(self, segment: Segment, writable: bool) -> int:
        descriptor = segment.descriptor if writable else segment.open_to_read()
        try:
            answer = self.ask({"op": "map", "size": segment.size, "writable": writable}, descriptor)
        finally:
            if not writable:
                os.close(descriptor)
        return integer(answer.get("address"), 1, _TOP * 32)

    def segment(self, segment: Segment, writable: bool) -> int:
        """Where a shared array starts in the worker, which can write it only if a kernel that it was given to may."""
        there = self._segments.get((segment, writable))
        if there is None:
            for old, access in [key for key in self._segments if not known.holds(key[0])]:
                self.ask({"op": "unmap", "address": self._segments.pop((old, access)), "size": old.size})
            there = self._segments[segment, writable] = self._map(segment, writable)
        return there

    def settled(self, number: int, plan: Plan, packed: Packed) -> bytes | None:
        """The arguments of a launch like an earlier one, all of whose arrays are shared: nothing is to be copied."""
        head = 16 * plan.slots
        if packed.n_regions or packed.cells or len(packed.data) > _IN_MESSAGE:
            return None
        if self._heads_of != known.changes:
            self._heads.clear()
            self._heads_of = known.changes
        there = self._heads.get((number, packed.data[:head]))
        if there is None:
            placement = Placement(self, plan, packed)
            if placement.copies:
                return None
            placement.fill(0, 0)
            if len(self._heads) >= _KEPT_PLANS:
                self._heads.clear()
            there = self._heads[number, packed.data[:head]] = placement.data[:head]
        return there + packed.data[head:]

    def send(
        self,
        kind: int,
        plan: int,
        threads: int,
        data: bytes,
        n_regions: int = 0,
        payload: bytes | None = None,
        at: int = 0,
        options: int = 0,
    ) -> None:
        self.number = self.number + 1 & 0xFFFFFFFF
        head = REQUEST.pack(kind, 0, 0, self.number, plan, threads, len(data), n_regions, at, options)
        send_packet(self.link, head + (data if payload is None else payload))

    def end(self) -> tuple[str, str]:
        if self.arena is not None:
            self.arena.close()
            self.arena = None
        return super().end()


class Beside(NamedTuple):
    """What goes to the worker beside the arguments, and comes back with the findings: options of sanitize mode, or room
    for what is said."""

    kind: int
    address: int
    size: int


class Ran(NamedTuple):
    """How a launch in the worker ended."""

    status: int
    error: layout.Error
    data: bytes  # its arguments with the worker's addresses


def run(
    kernel: str,
    plan: Plan,
    packed: Packed,
    threads: int,
    beside: Beside | None = None,
    timeout: float | None = None,
) -> Ran:
    """Run in the worker. Arrays change only where the launch came to its end, a fault in checked mode included.

    `timeout` is that of the launch; the block's holds as well, and the shorter one decides.
    """
    remote: Any = plan.kernel
    sandbox: Sandbox = remote.sandbox
    with sandbox.lock:
        launcher = sandbox.launcher()
        if launcher.is_busy:
            raise IsolationError(
                f"kernel '{kernel}': a signal's handler cannot launch while the launch that it interrupted waits for "
                "the same isolated worker"
            )
        launcher.is_busy = True
        try:
            seconds = sandbox.limits.timeout if timeout is None else min(timeout, sandbox.limits.timeout)
            return _run(launcher, plan, packed, threads, beside, seconds)
        except WorkerGone:
            signal, how = launcher.end()
            raise IsolationError(
                f"kernel '{kernel}': the isolated worker {how}, with {size_text(sandbox.limits.memory)} of memory to "
                "use; its arrays are as they were, and the next launch starts a new worker",
                signal=signal,
            ) from None
        except TimeoutError:
            launcher.end()
            raise IsolationTimeout(
                f"kernel '{kernel}': the launch took longer than {seconds:g} s, and its worker was ended; its arrays "
                "are as they were (the shorter one of isolate(timeout=...) and of the launch's own is the limit)"
            ) from None
        except Nonsense as error:
            launcher.end()
            raise IsolationError(
                f"kernel '{kernel}': the isolated worker gave an answer that cannot be ({error}): the kernel may have "
                "taken it over; it was ended, and the arrays are as they were"
            ) from None
        except BaseException:  # Ctrl-C, or a handler of another signal that raised
            launcher.end()
            raise
        finally:
            launcher.is_busy = False


def run_and_listen(
    kernel: str, plan: Plan, packed: Packed, threads: int, timeout: float | None
) -> tuple[int, layout.Error]:
    """The same for a kernel with os_log or assert: its status, and what it noted."""
    from metalcore.engine.runtime.said import listen

    error = layout.Error()

    def ran(address: int, size: int) -> int:
        nonlocal error
        status, error, _ = run(kernel, plan, packed, threads, Beside(LISTEN, address, size), timeout)
        return status

    return listen(kernel, plan, ran, most=_MOST_SAYINGS), error


def _run(
    launcher: Launcher, plan: Plan, packed: Packed, threads: int, beside: Beside | None, seconds: float
) -> Ran:
    remote: Any = plan.kernel
    number = launcher.plan(plan)
    data = launcher.settled(number, plan, packed) if beside is None else None
    if data is not None:
        launcher.send(LAUNCH, number, threads, data)
        status, error = _reply(launcher, time.monotonic() + seconds)
        _check_reply(status, error, plan, remote.variant.wide)
        return Ran(status, error, data)
    placement = Placement(launcher, plan, packed)
    found = ctypes.sizeof(plan.findings)
    extra = beside.size + found if beside else 0
    extra += len(packed.data) + REGION * packed.n_regions
    here, there = launcher.room(placement.room + extra + 2 * LINE)
    end = placement.fill(here, there)
    data, regions = placement.data, placement.regions
    payload = data + regions
    at = 0
    if len(payload) > _IN_MESSAGE:
        at = end = _up(end)
        ctypes.memmove(here + at, payload, len(payload))
        end += len(payload)
        at, payload = at + there, b""
    beside_at = _up(end)
    if beside:
        ctypes.memmove(here + beside_at, beside.address, beside.size)
    kind = beside.kind if beside else LAUNCH
    launcher.send(kind, number, threads, data, len(regions) // REGION, payload, at, there + beside_at)
    status, error = _reply(launcher, time.monotonic() + seconds)
    if beside:
        ctypes.memmove(beside.address, here + beside_at, beside.size)
        ctypes.memmove(plan.findings, here + beside_at + beside.size, found)
        check_beside(beside, plan)
    _check_reply(status, error, plan, remote.variant.wide)
    if not status & (layout.STOPPED | _NOT_STARTED):
        placement.copy_back()
    return Ran(status, error, data)


def _up(offset: int) -> int:
    return -(-offset // LINE) * LINE


def _reply(launcher: Launcher, deadline: float) -> tuple[int, layout.Error]:
    size = ctypes.sizeof(layout.Error)
    data = receive_packet(launcher.link, max(0.001, deadline - time.monotonic()))
    if len(data) != REPLY.size + size:
        raise Nonsense("a reply of another size")
    number, status = REPLY.unpack_from(data)
    if number != launcher.number or status & ~_STATUSES:
        raise Nonsense("a reply to no question")
    return status, layout.Error.from_buffer_copy(data, REPLY.size)


def _check_reply(status: int, error: layout.Error, plan: Plan, is_wide: bool) -> None:
    if status & _NOT_STARTED and status not in (layout.TOO_WIDE, layout.TOO_SMALL):
        raise Nonsense("a launch that was and was not started")
    if status == layout.TOO_WIDE and is_wide:
        raise Nonsense("buffers that are too large for any code")
    if status == layout.TOO_SMALL and (error.site >= len(plan.needs) or not plan.needs[error.site][0]):
        raise Nonsense("an argument of no size that is too small")
    if status & layout.FAULT and not _is_access(error.kind):
        raise Nonsense("a fault of no kind")


def _is_access(kind: int) -> bool:
    """An operation, and why it was refused."""
    return kind & 0xFF <= layout.ATOMIC_LOAD and kind & ~0xFF in (0, layout.READ_ONLY, layout.MISALIGNED)


def check_beside(beside: Beside, plan: Plan) -> None:
    """What came from the worker's memory: numbers that index something must be in range."""
    if beside.kind == SANITIZE:
        check_events(layout.Options.from_address(beside.address))
        return
    said = layout.Said.from_address(beside.address)
    if layout.size_of_sayings(said.capacity) != beside.size:
        raise Nonsense("sayings of another size")
    sayings = (layout.Saying * min(said.count, said.capacity)).from_address(beside.address + ctypes.sizeof(said))
    places, groups = len(plan.kernel.native.places), plan.shape.groups
    for saying in sayings:
        is_there = all(at < count for at, count in zip(saying.group, groups, strict=True))
        if saying.place >= places or not is_there:
            raise Nonsense("a saying of nobody")


def check_events(options: layout.Options) -> None:
    """What sanitize mode found came from the worker's memory: numbers that index something must be in range."""
    if options.n_events > layout.EVENTS:
        raise Nonsense("more events than there is room for")
    for event in options.events[: options.n_events]:
        if event.kind >= len(layout.EVENT_KINDS) or event.root > layout.ANY_ROOT:
            raise Nonsense("an event of no kind")
        if not _is_access(event.access) or not _is_access(event.other_access):
            raise Nonsense("an access of no kind")
