"""A source that is compiled and run in workers: what units.SourceUnit and launch.LoadedKernel are for this process."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from metalcore.engine.files import torch_headers
from metalcore.engine.isolate.messages import INTEGER_LIMIT, Nonsense, integer, items, plain_text, record, text
from metalcore.engine.isolate.structs import struct_type
from metalcore.engine.model import Argument, FunctionConstant, NativeKernel, Place, Site, ThreadgroupVariable, Variant
from metalcore.engine.notice import compiling, name_of
from metalcore.engine.options import Source
from metalcore.engine.units import Constants, Signature
from metalcore.errors import IsolationError
from metalcore.launch.declaration import Requirement

if TYPE_CHECKING:
    from metalcore.engine.frontend.records import Type
    from metalcore.engine.isolate.sandbox import Compiler, Sandbox
    from metalcore.engine.runtime import layout
    from metalcore.engine.runtime.binding import Packed
    from metalcore.engine.runtime.launch import Plan
    from metalcore.engine.units import SourceUnit

_MOST_SLOT, _LARGEST_ELEMENT, _LARGEST_MEMORY = 1023, 1 << 28, 1 << 31


class RemoteKernel:
    """Machine code that this process never loads."""

    __slots__ = ("address", "code", "cost", "native", "sandbox", "variant", "written")
    is_remote = True

    def __init__(self, sandbox: Sandbox, native: NativeKernel, code: bytes, variant: Variant) -> None:
        self.sandbox, self.native, self.code, self.variant = sandbox, native, code, variant
        self.written = frozenset(native.written)
        self.address = self.cost = 0

    def sanitize(
        self, kernel: str, plan: Plan, packed: Packed, options: layout.Options, limit: int
    ) -> tuple[int, Packed]:
        from metalcore.engine.isolate.launcher import SANITIZE
        from metalcore.engine.isolate.launches import Beside, run
        from metalcore.engine.runtime.binding import Packed

        beside = Beside(SANITIZE, ctypes.addressof(options), ctypes.sizeof(options))
        status, _, data = run(kernel, plan, packed, 1, beside, timeout=limit / 1e9 if limit else None)
        return status, Packed(data, None, 0, None)


class IsolatedUnit:
    """One source with its options, known through what a sealed compiler says of it."""

    def __init__(self, sandbox: Sandbox, source: Source) -> None:
        self.sandbox, self.source = sandbox, source.settled()
        self._lock = threading.Lock()
        self._signatures: dict[tuple[str, Constants], Signature] = {}
        self._records: dict[tuple[str, Constants, int], Type] = {}
        self.compiler: Compiler | None = None  # sandbox.py's
        answer, _ = self._ask({"op": "unit"})
        with _understood():
            self.functions = tuple(plain_text(name) for name in items(answer.get("functions")))
            self.templates = tuple(plain_text(name) for name in items(answer.get("templates")))
            self.constants = tuple(record(FunctionConstant, c) for c in items(answer.get("constants")))

    @staticmethod
    def of(unit: SourceUnit | IsolatedUnit, sandbox: Sandbox) -> IsolatedUnit:
        """The same source in a sandbox."""
        return IsolatedUnit(sandbox, unit.source)

    @property
    def folders(self) -> list[str]:
        """What the compiler may read besides the toolchain."""
        torch = torch_headers()
        own = [os.path.dirname(self.source.path)] if self.source.path else []
        return [*self.source.include_dirs, *own, *([os.path.join(torch, "c10", "metal")] if torch else [])]

    def remember(self) -> str:
        """Keep the text for a report, which quotes lines of it; the answer names it there."""
        from metalcore.diagnostics.sources import remember

        return remember(self.source.text, self.source.path)

    def signature(self, name: str, constants: Constants) -> Signature:
        """The kernel's arguments; the first answer holds for good."""
        known = self._signatures.get((name, constants))
        if known is None:
            answer, _ = self._ask({"op": "signature", "name": name, "constants": constants})
            with _understood():
                known = _signature(answer)
            known = self._signatures.setdefault((name, constants), known)
        return known

    def record(self, name: str, constants: Constants, parameter: int) -> Type:
        """The layout of the struct that a parameter points to; the first answer holds for good."""
        known = self._records.get((name, constants, parameter))
        if known is None:
            question = {"op": "record", "name": name, "constants": constants, "parameter": parameter}
            answer, _ = self._ask(question)
            with _understood():
                known = struct_type(answer.get("record"))
            known = self._records.setdefault((name, constants, parameter), known)
        return known

    def load(self, name: str, constants: Constants, variant: Variant) -> RemoteKernel:
        """Machine code of a kernel for one kind of threadgroup."""
        question = {"op": "native", "name": name, "constants": constants, "variant": dataclasses.asdict(variant)}
        answer, code = self._ask(question)
        with _understood():
            native = _native(answer.get("native"))
        return RemoteKernel(self.sandbox, native, code, variant)

    def _ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        with compiling(question.get("name") or name_of(self.source.text, self.source.path)), self._lock:
            return self.sandbox.compile(self, question)

    @property
    def is_busy(self) -> bool:
        return self._lock.locked()

    def forget(self) -> None:
        """In a forked child: the compiler is the parent's."""
        self._lock = threading.Lock()
        if self.compiler is not None:
            self.compiler.forget()

    def __del__(self) -> None:
        with suppress(Exception):
            if self.compiler is not None:
                self.compiler.abandon()


class _understood:
    """An answer that cannot be is an error of the isolation."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Nonsense):
            raise IsolationError(f"the compiler in the worker gave an answer that cannot be: {error}") from None


def _signature(answer: dict[str, Any]) -> Signature:
    arguments = tuple(record(Argument, a) for a in items(answer.get("arguments")))
    for a in arguments:
        integer(a.index, -1, _MOST_SLOT)
        integer(a.element_size, 0, _LARGEST_ELEMENT)
        integer(a.element_align, 0, _LARGEST_ELEMENT)
        integer(a.lanes, 0, 16)
    most = answer.get("max_threads")
    requirements = []
    for each in items(answer.get("requirements")):
        if len(items(each)) != len(Requirement._fields):
            raise Nonsense("Requirement")
        word, expression, note, file = (plain_text(part) for part in each[:-1])
        requirements.append(Requirement(word, expression, note, file, integer(each[-1], 0, 1 << 31)))
    return Signature(arguments, None if most is None else integer(most, 0, 1 << 31), tuple(requirements))


def _native(data: Any) -> NativeKernel:
    if not isinstance(data, dict):
        raise Nonsense("no kernel")
    return NativeKernel(
        path="",
        sites=tuple(record(Site, s) for s in items(data.get("sites"))),
        static_threadgroup_memory=integer(data.get("static_threadgroup_memory"), 0, _LARGEST_MEMORY),
        threadgroup_variables=tuple(record(ThreadgroupVariable, v) for v in items(data.get("threadgroup_variables"))),
        written=tuple(integer(slot, 0, 30) for slot in items(data.get("written"))),
        has_loops=data.get("has_loops") is not False,
        places=tuple(record(Place, p) for p in items(data.get("places"))),
        features=tuple(text(f, 100) for f in items(data.get("features"))),
        whole_simdgroups=plain_text(data.get("whole_simdgroups")),
        stack_size=integer(data.get("stack_size"), 0, INTEGER_LIMIT),
        wide_from=integer(data.get("wide_from"), 0, INTEGER_LIMIT),
        writes_anywhere=data.get("writes_anywhere") is not False,
    )
