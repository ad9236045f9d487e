"""metalcore.explain(): what ran for each call, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from metalcore.runtimes.mps_route import route
from metalcore.runtimes.watch import Row, begin, end

HEADINGS = ("op", "ran", "why", "shapes", "dtype")


class Log:
    """The calls of a block, of every thread. `print(log)` shows them as a table; before a block, the overrides."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._entered = False

    def __enter__(self) -> Log:
        self._entered = True
        begin(self.rows)
        return self

    def __exit__(self, *_: object) -> None:
        end(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def __repr__(self) -> str:
        if not self._entered:
            return state()
        if not self.rows:
            return "no op ran"
        return table(HEADINGS, [(r.op, r.ran, r.reason, r.shapes, r.dtype) for r in self.rows])


def explain() -> Log:
    """Tell what runs, and why.

    >>> import torch, metalcore
    >>> with metalcore.explain() as log, metalcore.overrides("rms_norm"):
    ...     y = torch.nn.functional.rms_norm(torch.ones(2, 8), (8,))
    ...     z = torch.nn.functional.rms_norm(torch.ones(2, 8, dtype=torch.float64), (8,))
    >>> [(row.op, row.by_torch, row.reason) for row in log]
    [('rms_norm', False, 'the override of torch.nn.functional.rms_norm'), ('rms_norm', True, 'input is float64')]

    `print(log)` shows a table; without a block, `print(metalcore.explain())` shows which overrides are on, and whether
    tensors on MPS go by the native extension or by torch.mps.compile_shader.
    """
    return Log()


def state() -> str:
    """A table of the overrides that there are, and the way to a GPU."""
    from metalcore.ops import find
    from metalcore.torch.overrides import active_overrides, overridable

    active = active_overrides()
    rows = []
    for noun, namesake in overridable().items():
        setting = active.get(noun)
        faster = find(noun).override_from
        usual = "off by default" if faster is None else f"on by default: faster from {faster} elements on"
        least = f", from {setting.least_elements} elements" if setting and setting.least_elements else ""
        rows.append((noun, namesake, f"on{least}" if setting else "off", usual))
    overrides = table(("op", "takes the place of", "now", "why"), rows)
    return f"{overrides}\n\ntensors on MPS run by {route()}"


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns in plain text."""
    lines = [list(map(str, headings)), *(list(map(str, row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    lines.insert(1, ["-" * w for w in widths])
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
