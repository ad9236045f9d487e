"""Figures of the op library: rows, what they must reach, a table and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.plot import BLUE, GREEN, Dot
from harness.plot import plot as draw

BINDS_FROM = 1 << 18  # elements: smaller sizes are shown only
KINDS = {"forward": "forward", "both": "forward + backward"}


@dataclass(frozen=True)
class Row:
    noun: str
    size: str
    dtype: str
    kind: str
    elements: int
    target: float | None
    seconds: dict[str, float]
    error: str = ""

    @staticmethod
    def of(line: dict[str, Any]) -> Row:
        names = ("noun", "size", "dtype", "kind", "elements", "target")
        return Row(*(line[n] for n in names), line.get("seconds", {}), line.get("error", ""))

    def ratio(self, peer: str) -> float | None:
        """How many times as fast as the peer we are."""
        return self.seconds[peer] / self.seconds["ours"] if peer in self.seconds else None

    @property
    def binds(self) -> bool:
        return self.target is not None and self.elements >= BINDS_FROM

    @property
    def missed(self) -> str:
        """Why the row falls short, or nothing."""
        if self.error:
            return self.error
        found = self.ratio("torch")
        if self.binds and self.target is not None and (found is None or found < self.target):
            return f"{found:.2f} of torch's speed, not {self.target:g}"
        return ""

    @property
    def cells(self) -> list[str]:
        ratios = ["-" if (r := self.ratio(p)) is None else f"{r:.2f}" for p in ("torch", "compile")]
        if self.missed:
            ratios[0] = f"**{ratios[0]}**"
        target = "-" if self.target is None else f"{self.target:g}" if self.binds else f"({self.target:g})"
        met = "shown" if not self.binds and not self.error else "**no**" if self.missed else "yes"
        time = _time(self.seconds["ours"]) if self.seconds else "-"
        return [self.noun, self.size, self.dtype, KINDS[self.kind], time, ratios[0], target, ratios[1], met]


HEADERS = ("op", "size", "dtype", "pass", "time", "torch", "target", "torch.compile", "met")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else None


def against_compile(rows: Sequence[Row]) -> float | None:
    """Geometric mean of the speed against torch.compile, over the rows that bind."""
    return mean(r for row in rows if row.elements >= BINDS_FROM and (r := row.ratio("compile")) is not None)


def markdown(rows: Sequence[Row], figures: Sequence[tuple[str, str, str, bool]]) -> str:
    """The generated part of docs/performance.md."""
    lines = ["| what | found | target | met |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {found} | {target} | {'yes' if met else '**no**'} |" for name, found, target, met in figures]
    lines += ["", "![speed against torch](plots/ops.svg)", ""]
    lines += ["| " + " | ".join(HEADERS) + " |", "|---|---|---|---|" + "--:|" * (len(HEADERS) - 4)]
    lines += ["| " + " | ".join(row.cells) + " |" for row in rows]
    short = [f"- {r.noun} {r.size} {r.dtype}, {KINDS[r.kind]}: {r.missed}" for r in rows if r.missed]
    return "\n".join(lines + (["", "What falls short:", "", *short] if short else []))


def plot(rows: Sequence[Row]) -> str:
    """Speed against torch eager, a line an op, a dot a row that binds."""
    chosen = [(r, ratio) for r in rows if r.elements >= BINDS_FROM and (ratio := r.ratio("torch"))]
    dots = [
        Dot(row.noun, ratio, BLUE, row.kind != "forward", -4)
        if row.dtype == "float32"
        else Dot(row.noun, ratio, GREEN, row.kind != "forward", 4)
        for row, ratio in chosen
    ]
    title = "speed against torch eager; blue: float32, green: bfloat16; ring: forward + backward"
    return draw(title, sorted({row.noun for row, _ in chosen}), dots)
