"""One kernel on the engine and on the interpreter, compared bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.stress import tree as t
from tests.stress.arith import Undefined
from tests.stress.context import SLOTS, buffer_data
from tests.stress.launch import Arrays, run
from tests.stress.printer import launch_text, msl
from tests.stress.types import Vector
from tests.stress.validate import Invalid, validate
from tests.stress.worker import Engine


@dataclass(frozen=True)
class Outcome:
    kind: str  # "agree", "differ", "error" (a Python error of the engine), "crash", "hang", "invalid" (our own fault)
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.kind == "agree"


def inputs(kernel: t.Kernel) -> Arrays:
    return {b.name: buffer_data(kernel, b) for b in kernel.buffers}


def check(kernel: t.Kernel, engine: Engine, mode: str = "") -> Outcome:
    try:
        validate(kernel)
        expected = run(kernel, inputs(kernel))
    except (Invalid, Undefined) as error:
        return Outcome("invalid", str(error))
    arrays = inputs(kernel)
    arguments = [arrays[b.name][0] if b.role == "uniform" else arrays[b.name] for b in kernel.buffers]
    kind, answer = engine.run(msl(kernel), arguments, kernel.threads, kernel.group_size, mode or mode_of(kernel))
    if kind != "ok":
        return Outcome(kind, str(answer))
    for buffer, got in zip(kernel.buffers, answer, strict=True):
        if buffer.role != "uniform":
            text = difference(buffer, expected[buffer.name], got)
            if text:
                return Outcome("differ", text)
    return Outcome("agree")


def mode_of(kernel: t.Kernel) -> str:
    """Every third seed runs unchecked: that is other machine code."""
    return "fast" if kernel.seed % 3 == 0 else "checked"


def difference(buffer: t.Buffer, expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> str:
    """The first element that is not the same bits (any NaN is the same as any other), or nothing."""
    same = expected.view(f"uint{expected.itemsize * 8}") == got.view(f"uint{got.itemsize * 8}")
    if expected.dtype.kind == "f":
        same |= np.isnan(expected) & np.isnan(got)
    if same.all():
        return ""
    at = int(np.argmin(same))
    width = 1
    if isinstance(buffer.type, Vector):
        width = 4 if buffer.type.size == 3 else buffer.type.size
    element = at // width
    where = f"{buffer.name}[{element}]" + (f" component {at % width}" if width > 1 else "")
    if buffer.role == "output":
        where += f" (thread {element // SLOTS}, slot {element % SLOTS})"
    count = int((~same).sum())
    return f"{where}: expected {shown(expected[at])}, got {shown(got[at])}; {count} of {same.size} differ"


def shown(value: Any) -> str:
    if isinstance(value, np.floating):
        bits = int(np.array(value).view(f"uint{value.itemsize * 8}"))
        return f"{value!r} ({bits:#x})"
    return repr(value)


def report(kernel: t.Kernel, outcome: Outcome) -> str:
    lines = [
        f"seed {kernel.seed}: {outcome.kind}",
        outcome.detail,
        f"{launch_text(kernel)}, mode {mode_of(kernel)}",
        "",
        msl(kernel),
    ]
    small = [b for b in kernel.buffers if b.role == "uniform"]
    lines += [f"{b.name} = {buffer_data(kernel, b)[0]}" for b in small]
    return "\n".join(lines)
