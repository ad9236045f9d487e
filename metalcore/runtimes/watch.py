"""Notes what runs, for metalcore.explain(). While nobody records, a launch costs one test of an empty list more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from metalcore import settings
from metalcore.runtimes.kernel import Kernel, Variant


@dataclass
class Row:
    """One call: the op, what ran (names of kernel variants, or torch), why, and what it was given."""

    op: str
    reason: str
    shapes: str = ""
    dtype: str = ""
    kernels: list[str] = field(default_factory=list)
    by_torch: bool = False

    @property
    def ran(self) -> str:
        return "torch" if self.by_torch else ", ".join(self.kernels) or "no kernel"


recorders: list[list[Row]] = []
"""The lists that rows are added to: one for each open block of explain(), of any thread."""

listeners: list[Callable[[bool], None]] = []
"""Told whether there is a recorder, when that may have changed: code that repeats plans without Python."""

_now = threading.local()


def begin(rows: list[Row]) -> None:
    """Add rows to this list from now on."""
    recorders.append(rows)
    _tell()


def end(rows: list[Row]) -> None:
    for i, known in enumerate(recorders):
        if known is rows:  # lists of equal rows are equal: the very one is meant
            del recorders[i]
            break
    _tell()


def _tell() -> None:
    for listener in listeners:
        listener(bool(recorders))


def watched(name: str, plan: Callable[..., Any], run: Any, arguments: tuple[Any, ...]) -> Any:
    """Run a stage's plan with a row for it."""
    if name.endswith("_backward"):
        reason = f"the gradient of {name.removesuffix('_backward')}"
    else:
        reason = getattr(_now, "reason", "") or f"called as metalcore.{name}"
    row = Row(name, reason, *_described(arguments))
    before, _now.row = getattr(_now, "row", None), row
    try:
        return plan(run, *arguments)
    finally:
        _now.row = before
        _add(row)


def launched(kernel: Kernel, types: tuple[object, ...], constants: tuple[object, ...]) -> None:
    """A runtime starts this variant."""
    label = kernel.variant(types, constants).label
    row = getattr(_now, "row", None)
    if row is None:
        _add(Row(kernel.file, "launched without an op", kernels=[label]))
    else:
        row.kernels.append(label)


def note_variant(variant: Variant, where: str, float_type: str = "float") -> None:
    """A runtime has a new variant: named on stderr where METALCORE_LOG=variants asks for it."""
    if settings.logs_variants():
        note = "" if float_type == "float" else f" with float as {float_type}"
        print(f"metalcore: {where}: kernels/{variant.kernel.file}.metal: {variant.label}{note}", file=sys.stderr)


def left_to_torch(name: str, reason: str, arguments: tuple[Any, ...]) -> None:
    """An override that is on did not take this call."""
    _add(Row(name, reason, *_described(arguments), by_torch=True))


@contextmanager
def because(reason: str) -> Iterator[None]:
    """Gives the reason of the calls inside."""
    before, _now.reason = getattr(_now, "reason", ""), reason
    try:
        yield
    finally:
        _now.reason = before


def _add(row: Row) -> None:
    for rows in tuple(recorders):
        rows.append(row)


def _described(arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Shapes of the arrays, and the dtype of the first."""
    arrays = [a for a in arguments if hasattr(a, "shape") and hasattr(a, "dtype")]
    shapes = " ".join("x".join(map(str, a.shape)) or "scalar" for a in arrays)
    return shapes, str(arrays[0].dtype).rpartition(".")[2] if arrays else ""
