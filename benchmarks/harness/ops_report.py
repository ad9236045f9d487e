"""Figures of the op library: rows, what they must reach, a table and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

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
    """Speed against torch eager, a line an op, a dot a row that binds, on a scale of powers of two."""
    chosen = [r for r in rows if r.elements >= BINDS_FROM and r.ratio("torch")]
    names = sorted({r.noun for r in chosen})
    left, right, step, top = 170, 880, 22, 34
    height = top + step * len(names) + 26
    low, high = -2, 5

    def x(ratio: float) -> float:
        return left + (min(max(math.log2(ratio), low), high) - low) * (right - left) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="900" height="{height}" fill="white"/>',
        f'<text x="{left}" y="14">speed against torch eager; blue: float32, green: bfloat16; '
        "ring: forward + backward</text>",
    ]
    for power in range(low, high + 1):
        at = x(2.0**power)
        colour = "#dc2626" if power == 0 else "#e5e7eb"
        out.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{top - 10}" y2="{height - 22}" stroke="{colour}"/>')
        out.append(f'<text x="{at:.0f}" y="{height - 6}" text-anchor="middle">{2.0**power:g}</text>')
    for i, name in enumerate(names):
        y = top + i * step
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        for row in chosen:
            if row.noun == name:
                colour = "#2563eb" if row.dtype == "float32" else "#059669"
                style = f'fill="{colour}"' if row.kind == "forward" else f'fill="none" stroke="{colour}"'
                shift = -4 if row.dtype == "float32" else 4
                out.append(f'<circle cx="{x(row.ratio("torch") or 1):.0f}" cy="{y + shift}" r="3.5" {style}/>')
    return "\n".join([*out, "</svg>", ""])
