"""The process that workers are forked from. It has everything imported, sees nothing of a stranger, and ends with
the process that started it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
from contextlib import suppress
from typing import Any

from metalcore.engine.isolate import kernel, landlock, seal, seccomp
from metalcore.engine.isolate.messages import PACKET, dump, parse

_REAP_EVERY = 2000  # milliseconds


def main(descriptor: int, given: dict[str, Any]) -> None:
    """Entry point of the new interpreter: `given` is what client.py has said."""
    control = socket.socket(fileno=descriptor)
    control.setblocking(True)
    lacks = given["without"]
    has_namespaces = "namespaces" not in lacks and seal.enter_namespaces()
    if has_namespaces:
        first = os.fork()  # the first process of the namespace; when it ends, the kernel ends all the others
        if first:
            control.close()
            os.waitpid(first, 0)
            os._exit(0)
        kernel.prctl(kernel.SET_PDEATHSIG, seal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    known = 0 if "landlock" in lacks else landlock.version()
    facts = {"landlock": known, "seccomp": seccomp.is_supported(), "namespaces": has_namespaces}
    _import_all()
    control.send(dump(facts))
    _Server(control, facts).serve()
    os._exit(0)


def _import_all() -> None:
    """What a worker needs is there before it is sealed, and is loaded once for all of them."""
    import metalcore.engine.codegen.facts
    import metalcore.engine.frontend.lowering
    import metalcore.engine.frontend.unit
    import metalcore.engine.isolate.compiler
    import metalcore.engine.isolate.launcher
    import metalcore.engine.lockstep
    import metalcore.engine.optimiser.llvm
    import metalcore.engine.pipeline
    from metalcore.engine.runtime.native_library import runtime_library, sanitizer_library
    from metalcore.engine.store.cache import toolchain_key

    metalcore.engine.optimiser.llvm.vector_width()  # reads the CPU's features
    toolchain_key()
    runtime_library()
    sanitizer_library()


class _Server:
    def __init__(self, control: socket.socket, facts: dict[str, Any]) -> None:
        self._control, self._facts = control, facts
        self._workers: set[int] = set()
        self._folders: set[str] = set()
        self._ended: dict[int, int] = {}

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            ready = poll.poll(_REAP_EVERY)
            self._reap()
            if not ready:
                continue
            data, descriptors, _, _ = socket.recv_fds(self._control, PACKET, 1)
            if not data:  # the program has ended
                for pid in self._workers:
                    self._kill(pid)
                for folder in self._folders:  # it may have been killed, and then nobody else removes them
                    shutil.rmtree(folder, ignore_errors=True)
                return
            request = parse(data)
            try:
                answer = self._fork(request, descriptors[0]) if request["op"] == "fork" else self._end(request["pid"])
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            finally:
                for each in descriptors:
                    os.close(each)
            self._control.send(dump(answer))

    def _fork(self, request: dict[str, Any], descriptor: int) -> dict[str, Any]:
        if request["kind"] == "compile":
            self._folders.add(request["private"])
            request["headers"] = _header(request)
        own = os.getpid()
        pid = os.fork()
        if pid:
            self._workers.add(pid)
            return {"pid": pid}
        status = 1
        try:
            self._run(request, descriptor, own)
            status = 0
        finally:
            os._exit(status)

    def _run(self, request: dict[str, Any], descriptor: int, server: int) -> None:
        kernel.prctl(kernel.SET_PDEATHSIG, seal.SIGKILL)
        if os.getppid() != server:
            return
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        kept = seal.keep_only(descriptor)
        self._control.detach()  # closed just now
        link = socket.socket(fileno=kept)
        link.setblocking(True)
        if request["kind"] == "compile":
            from metalcore.engine.isolate.compiler import serve
        else:
            from metalcore.engine.isolate.launcher import serve
        serve(link, request, self._facts)

    def _end(self, pid: int) -> dict[str, Any]:
        """Kill a worker and what it started; how it had died, where it was dead already."""
        if pid in self._workers:
            self._kill(pid)
            _, status = os.waitpid(pid, 0)
            self._workers.discard(pid)
            return {"status": status}
        return {"status": self._ended.pop(pid, 0)}

    def _kill(self, pid: int) -> None:
        for kill in (os.killpg, os.kill):  # it may not have become the first of its group yet
            with suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._workers:
                self._workers.discard(pid)
                self._ended[pid] = status


def _header(request: dict[str, Any]) -> dict[str, str]:
    """Where metal_stdlib lies precompiled: the worker may read that file of the user's cache, and no other."""
    from metalcore.engine.frontend import toolchain

    flags = toolchain.language_flags(request["math_mode"], optimised=True, float_type=request["float_type"])
    return toolchain.precompiled(flags)
