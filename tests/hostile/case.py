"""One hostile launch on the engine, compared with the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.hostile import tree as h
from tests.hostile.elements import Bytes, make
from tests.hostile.guarded import Pages
from tests.hostile.oracle import Oracle, Outcome, Redraw
from tests.hostile.printer import LENGTHS
from tests.hostile.shape import Launch
from tests.stress.types import FLOAT

MODES = ("checked", "sanitize", "fast")


@dataclass
class Verdict:
    """kind: "good", or what is wrong: "missed" (a fault that was not raised), "false" (one that was raised for
    nothing), "differ", "canary", "error" (another exception), "crash", "hang"."""

    kind: str
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.kind == "good"


class Host:
    """The arrays of one launch, bound and unbound."""

    def __init__(self, kernel: h.Kernel, launch: Launch, pages: Pages) -> None:
        self.kernel, self.launch, self.pages = kernel, launch, pages
        self.random = np.random.default_rng([kernel.seed, launch.seed])
        self.contents = {a.name: self.content(a) for a in kernel.arrays if a.on_host}
        self.bound: dict[str, Bytes] = {}
        for a in kernel.arrays:
            if a.on_host:
                self.bound[a.name] = pages.array(self.contents[a.name], a.placement)
        self.outputs: dict[str, int] = {"o": 4 * launch.shape.total}
        for a in kernel.arrays:
            if a.space in ("threadgroup", "dynamic"):
                self.outputs[f"dump_{a.name}"] = launch.shape.bytes(a) * launch.shape.groups
        for name, size in self.outputs.items():
            self.bound[name] = pages.array(np.zeros(size, np.uint8), "end")

    def content(self, a: h.Array) -> Bytes:
        count = self.launch.shape.elements(a)
        if a.atomic and a.element.parts[0][0] == FLOAT:
            return self.random.integers(0, 100, count).astype(np.float32).view(np.uint8)
        data: Bytes = make(a.element, self.random.integers(0, 1 << 32, count, np.uint64)).reshape(-1)
        return data

    def spans(self) -> dict[str, tuple[int, int]]:
        return {name: (x.ctypes.data, x.ctypes.data + x.nbytes) for name, x in self.bound.items()}

    def reset(self) -> None:
        for name, x in self.bound.items():
            x[:] = self.contents.get(name, 0)

    def arguments(self) -> list[Any]:
        """In the order of the kernel's parameters."""
        params, owns, total = self.launch.params, self.launch.owns, self.launch.shape.total
        b = np.zeros(LENGTHS + len(self.kernel.arrays), np.uint64)
        for number, value in params.items():
            b[number] = value
        b[LENGTHS:] = [a.count for a in self.kernel.arrays]
        v = np.zeros((1 + max(owns, default=0), total), np.uint64)
        for number, values in owns.items():
            v[number] = np.array(values, np.uint64)
        numbers = [self.pages.array(x.reshape(-1).view(np.uint8), "end").view(np.uint64) for x in (b, v)]
        out: list[Any] = [self.bound["o"].view(np.uint32), *numbers]
        tables: set[str] = set()
        for a in self.kernel.arrays:
            if a.space in ("device", "constant"):
                out.append(self.typed(a.name, a))
            elif a.space == "listed" and a.table not in tables:
                tables.add(a.table)
                rest = [x for x in self.kernel.arrays if x.table == a.table]
                out.append([self.typed(x.name, x) for x in rest])
            if a.space in ("threadgroup", "dynamic"):
                out.append(self.typed(f"dump_{a.name}", a))
        return out

    def typed(self, name: str, a: h.Array) -> np.ndarray[Any, Any]:
        kind = a.element.parts[0][0].dtype if a.element.kind != "record" else np.uint8
        return self.bound[name].view(kind)


def memory_sizes(kernel: h.Kernel, launch: Launch) -> dict[int, int] | None:
    dynamic = [a for a in kernel.arrays if a.space == "dynamic"]
    return {i: launch.shape.bytes(a) for i, a in enumerate(dynamic)} or None


def expect(kernel: h.Kernel, launch: Launch, host: Host) -> Outcome:
    outcome = Oracle(kernel, launch, host.contents, host.spans()).run()
    if outcome.undefined and not kernel.undefined:
        raise Redraw(outcome.undefined)
    return outcome


def run(function: Any, kernel: h.Kernel, launch: Launch, host: Host, expected: Outcome, mode: str) -> Verdict:
    """Runs the launch in one mode. The canaries are looked at first: what changes them is the worst."""
    import metalcore

    host.reset()
    arguments = host.arguments()
    fault = ""
    shape = launch.shape
    options: dict[str, Any] = {"threads": shape.threads, "group_size": shape.group}
    memory = memory_sizes(kernel, launch)
    if memory:
        options["threadgroup_memory"] = memory
    try:
        with metalcore.mode(mode) as report:
            function(*arguments, **options)
        if mode == "sanitize":
            found = [f for f in report.findings if f.kind == "out-of-bounds"]
            fault = f"{found[0].kind} in line {found[0].line}, thread {found[0].thread}" if found else ""
    except metalcore.errors.KernelFault as error:
        fault = str(error)
    except Exception as error:
        return Verdict("error", f"{type(error).__name__}: {error}")
    touched = host.pages.touched()
    if touched:
        return Verdict("canary", f"{touched} bytes beside the arrays are changed")
    for a in kernel.arrays:
        if a.on_host and not a.writable and (host.bound[a.name] != host.contents[a.name]).any():
            return Verdict("canary", f"{a.name}, which is const, is changed")
    if kernel.undefined:
        return Verdict("good")
    if expected.outside and not fault:
        return Verdict("missed", f"no fault, but threads leave {expected.outside}")
    if fault and not expected.outside:
        return Verdict("false", f"all accesses are in bounds, and yet: {fault}")
    for name, want in expected.memory.items():
        got = host.bound[name]
        if (got != want).any():
            at = int(np.argmax(got != want))
            count = int((got != want).sum())
            return Verdict("differ", f"{name} byte {at}: {got[at]}, not {want[at]}; {count} of {len(want)} differ")
    return Verdict("good")
