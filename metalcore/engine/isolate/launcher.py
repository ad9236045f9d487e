"""The worker that runs kernels. Everything here runs after it was sealed; it may be taken over by what it runs."""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import socket
import struct
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

from metalcore.engine.isolate import seal
from metalcore.engine.isolate.kernel import failed, libc
from metalcore.engine.isolate.messages import PACKET, dump, look_for_packet, parse, receive_parts
from metalcore.engine.model import NativeKernel, Place, Variant
from metalcore.engine.runtime import layout
from metalcore.engine.runtime.launch import LoadedKernel, Plan
from metalcore.engine.runtime.native_library import runtime_library, sanitizer_library
from metalcore.launch import Shape

# A launch: operation, flags, number of the request, plan, threads, bytes of arguments, number of regions, the address
# of the arguments where they are too long for a message, and of the options of sanitize mode or of what is said.
REQUEST = struct.Struct("=BBHIIIIIQQ")
REPLY = struct.Struct("=II")  # number of the request, status; then an mc_error
LAUNCH, SANITIZE, LISTEN = 0x4C, 0x53, 0x54
REGION = ctypes.sizeof(layout.Region)
_JSON = ord("{")
_LOOK = 0.0004  # seconds that the next launch is looked for, as long as idle threads of the pool spin
_MAP_FAILED = ctypes.c_void_p(-1).value
_NOTHING = Place("", "", 0, 0)


def serve(link: socket.socket, request: dict[str, Any], facts: dict[str, Any]) -> None:
    runtime = runtime_library()
    helpers = max(0, int(request["threads"]) - 1)
    runtime.mc_set_main_thread(0)  # no handlers of signals here: nobody has to be started to look for them
    seal.seal_launch(request["memory"], bool(facts["landlock"]), lambda: runtime.mc_start_pool(helpers))
    link.send(b"{}")
    worker = _Worker(link, request["hook"])
    while True:
        data, descriptors = look_for_packet(link, _LOOK) or receive_parts(link)
        if not data:
            return
        if data[0] == _JSON:
            worker.prepare(parse(data), descriptors)
        else:
            worker.launch(data)


class _Worker:
    def __init__(self, link: socket.socket, has_hook: bool) -> None:
        self._link, self._has_hook = link, has_hook
        self._kernels: list[LoadedKernel] = []
        self._plans: dict[int, Plan] = {}
        self._runtime = runtime_library()
        self._error = layout.Error()

    def prepare(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """What launches refer to by number."""
        try:
            answer = getattr(self, f"_do_{request['op']}")(request, *descriptors)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._link.send(dump(answer)[:PACKET])

    def _do_kernel(self, request: dict[str, Any], code: int) -> dict[str, Any]:
        native = NativeKernel(
            f"/proc/self/fd/{code}",  # it stays open: the loader knows libraries by name
            (),
            request["static"],
            (),
            tuple(request["written"]),
            request["has_loops"],
            (_NOTHING,) * request["places"],
            stack_size=request["stack_size"],
            wide_from=request["wide_from"],
        )
        self._kernels.append(LoadedKernel(native, Variant.from_json(request["variant"])))
        return {"number": len(self._kernels) - 1}

    def _do_plan(self, request: dict[str, Any]) -> dict[str, Any]:
        shape = Shape(tuple(request["grid"]), tuple(request["groups"]), tuple(request["group"]))
        placed = {int(slot): tuple(place) for slot, place in request["placed"].items()}
        valid: Any = SimpleNamespace(shape=shape, placed=placed, memory=request["memory"], concerns_arguments=False)
        given = request["rules"]
        rules = (layout.Rule * max(1, len(given)))()
        for rule, (needed, is_optional, is_writable) in zip(rules, given, strict=False):
            rule.needed, rule.is_optional, rule.is_writable = needed, is_optional, is_writable
        binder: Any = SimpleNamespace(
            rules=ctypes.addressof(rules), slots=len(given), needs=given, keep=rules, check_written=lambda _: None
        )
        plan = Plan(self._kernels[request["kernel"]], self._kernels[request["edge"]], valid, binder)
        self._plans[request["number"]] = plan
        return {}

    def _do_map(self, request: dict[str, Any], file: int) -> dict[str, Any]:
        access = mmap.PROT_READ | (mmap.PROT_WRITE if request["writable"] else 0)
        address = libc().mmap(None, request["size"], access, mmap.MAP_SHARED, file, 0)
        if address == _MAP_FAILED:
            raise failed("mmap")
        os.close(file)
        return {"address": address}

    def _do_unmap(self, request: dict[str, Any]) -> dict[str, Any]:
        libc().munmap(request["address"], request["size"])
        return {}

    def _do_hook(self, request: dict[str, Any]) -> dict[str, Any]:
        """For tests: what a kernel could do that has taken this process over."""
        if not self._has_hook:
            raise PermissionError("this worker was not started for a test")
        said = io.StringIO()
        with redirect_stdout(said):
            exec(request["code"], {"link": self._link})
        return {"said": said.getvalue()[:10_000]}

    def launch(self, data: bytes) -> None:
        kind, _, _, number, plan_number, threads, size, n_regions, at, options = REQUEST.unpack_from(data)
        rest = ctypes.string_at(at, size + REGION * n_regions) if at else data[REQUEST.size :]
        packed, plan = rest[:size], self._plans[plan_number]
        regions = None
        if n_regions:
            regions = (layout.Region * (n_regions + layout.BUFFERS))()
            ctypes.memmove(regions, rest[size : size + REGION * n_regions], REGION * n_regions)
        if kind == LAUNCH:
            status = self._runtime.mc_call(plan.address, packed, threads, regions, n_regions, 0)
        else:
            plan.forget_findings()
            if kind == SANITIZE:
                found = options + ctypes.sizeof(layout.Options)
                status = sanitizer_library().mc_sanitize(plan.address, packed, regions, n_regions, options, 0)
            else:
                found = options + layout.size_of_sayings(layout.Said.from_address(options).capacity)
                plan.say_to(options)
                status = self._runtime.mc_call(plan.address, packed, threads, regions, n_regions, 0)
            ctypes.memmove(found, plan.findings, ctypes.sizeof(plan.findings))
        if status & (layout.FAULT | layout.TOO_SMALL):
            self._runtime.mc_last_error(ctypes.byref(self._error))
        self._link.send(REPLY.pack(number, status) + bytes(self._error))
