"""Figures of linear algebra: rows, what they must reach, a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

HEADERS = ("function", "size", "time", "torch", "target", "NumPy", "ratio", "met")
MISSING = "not there yet"


@dataclass(frozen=True)
class Line:
    """One row as it was measured. Ratios of speed: 2 is twice as fast as the other."""

    name: str
    size: str
    target: float | None
    seconds: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    figure_targets: tuple[tuple[str, float], ...] = ()
    error: str = ""

    def speed(self, peer: str) -> float | None:
        return self.seconds[peer] / self.seconds["ours"] if peer in self.seconds else None

    @property
    def missed(self) -> str:
        """Why the row falls short, or nothing."""
        if self.error:
            return self.error
        found = self.speed("torch")
        if self.target is not None and found is not None and found < self.target:
            return f"{found:.2f} of torch's speed, not {self.target:g}"
        for name, most in self.figure_targets:
            if not self.figures.get(name, float("inf")) <= most:
                return f"{name} is {self.figures.get(name, float('nan')):.4g}, not at most {most:g}"
        return ""

    @property
    def cells(self) -> list[str]:
        def shown(value: float | None) -> str:
            return "-" if value is None else f"{value:.2f}"

        extra = "".join(f"; {name} {value:.4g}" for name, value in self.figures.items())
        target = "shown" if self.target is None else f"{self.target:g}"
        met = "**no**" if self.missed else "shown" if self.target is None else "yes"
        if self.error == MISSING:
            met = MISSING
        time = _time(self.seconds["ours"]) if self.seconds else "-"
        speed = shown(self.speed("torch"))
        ratios = [f"**{speed}**" if self.missed and speed != "-" else speed, target, shown(self.speed("numpy"))]
        return [self.name, self.size + extra, time, *ratios, "-" if self.ratio is None else f"{self.ratio:.2f}", met]


@dataclass(frozen=True)
class Workspace:
    """What a factorisation needs beside its inputs and results, over the size of the inputs."""

    name: str
    size: str
    share: float | None
    most: float = 3.0
    error: str = ""

    @property
    def met(self) -> bool:
        return self.share is not None and self.share <= self.most

    @property
    def cells(self) -> list[str]:
        found = self.error if self.share is None else f"{max(self.share, 0.0):.2f} x"
        return [self.name, self.size, found, f"at most {self.most:g} x", "yes" if self.met else "**no**"]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def line_of(row: Any, found: dict[str, Any]) -> Line:
    name = f"{row.function} {row.note}".strip()
    return Line(
        name,
        row.size,
        row.target,
        found.get("seconds", {}),
        found.get("ratio"),
        found.get("figures", {}),
        row.figure_targets,
        found.get("error", ""),
    )


def markdown(lines: Sequence[Line], workspaces: Sequence[Workspace]) -> str:
    """The generated part of docs/performance.md."""
    out = ["| " + " | ".join(HEADERS) + " |", "|---|---|" + "--:|" * (len(HEADERS) - 2)]
    out += ["| " + " | ".join(line.cells) + " |" for line in lines]
    out += ["", "Workspace: the memory of a call beside its inputs and results, over the size of the inputs.", ""]
    out += ["| function | size | found | target | met |", "|---|---|--:|--:|--:|"]
    out += ["| " + " | ".join(workspace.cells) + " |" for workspace in workspaces]
    short = [f"- {line.name} {line.size}: {line.missed}" for line in lines if line.missed]
    short += [f"- workspace of {w.name} {w.size}: {w.cells[2]}" for w in workspaces if not w.met]
    return "\n".join(out + (["", "What falls short:", "", *short] if short else []))
