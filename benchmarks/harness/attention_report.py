"""Figures of attention: rows, what they must reach, a table and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.plot import BLUE, GREEN, ORANGE, Dot
from harness.plot import plot as draw

HEADERS = ("what", "size", "dtype", "pass", "time", "flash", "target", "torch", "target", "products", "met")
PEERS = {"flash": "flash's", "torch": "torch's"}
LOOKS = {"float32": (BLUE, -6), "float16": (GREEN, 0), "bfloat16": (ORANGE, 6)}  # colour, and place on a line
MOST_MEMORY = 1.3


@dataclass(frozen=True)
class Line:
    """One row as it was measured. Ratios are speeds: 2 is twice as fast as the peer."""

    what: str
    size: str
    dtype: str
    kind: str
    targets: Mapping[str, float]
    seconds: Mapping[str, float] = field(default_factory=dict)
    variants: tuple[str, ...] = ()
    error: str = ""

    @staticmethod
    def of(row: Any, found: Mapping[str, Any]) -> Line:
        variants = tuple(found.get("variants", ()))
        given = (row.what, row.size, row.dtype, row.kind, row.targets)
        return Line(*given, found.get("seconds", {}), variants, found.get("error", ""))

    @property
    def name(self) -> str:
        return f"{self.what} {self.size}" + (", backward" if self.kind == "backward" else "")

    def speed(self, peer: str) -> float | None:
        return self.seconds[peer] / self.seconds["ours"] if peer in self.seconds else None

    def is_short(self, peer: str) -> bool:
        found = self.speed(peer)
        return peer in self.targets and (found is None or found < self.targets[peer])

    @property
    def missed(self) -> str:
        """Why the row falls short, or nothing."""
        if self.error:
            return self.error
        short = [
            f"{'no' if (found := self.speed(peer)) is None else f'{found:.2f}'} of {owner} speed, "
            f"not {self.targets[peer]:g}"
            for peer, owner in PEERS.items()
            if self.is_short(peer)
        ]
        return "; ".join(short)

    @property
    def cells(self) -> list[str]:
        ratios = []
        for peer in PEERS:
            found = self.speed(peer)
            shown = "-" if found is None else f"{found:.2f}"
            ratios.append(f"**{shown}**" if self.is_short(peer) and not self.error else shown)
            ratios.append(f"{self.targets[peer]:g}" if peer in self.targets else "-")
        alone = self.speed("products")
        ratios.append("-" if alone is None else f"{alone:.2f}")
        met = "**no**" if self.missed else "yes" if self.targets else "shown"
        time = _time(self.seconds["ours"]) if self.seconds else "-"
        return [self.what, self.size, self.dtype, self.kind, time, *ratios, met]


@dataclass(frozen=True)
class Memory:
    """The peak of a forward and backward pass over the bytes of its inputs, output and gradients."""

    size: str
    dtype: str
    share: float

    @property
    def met(self) -> bool:
        return self.share <= MOST_MEMORY

    @property
    def cells(self) -> list[str]:
        answer = "yes" if self.met else "**no**"
        return [self.size, self.dtype, f"{self.share:.2f} x", f"at most {MOST_MEMORY:g} x", answer]


MEMORY_HEADERS = ("peak memory, forward + backward", "dtype", "found", "target", "met")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def used_variants(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Each set of kernels that ran, with the rows that it ran for."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for line in lines:
        if line.variants:
            found.setdefault(line.variants, {})[f"{line.what}, {line.kind}"] = None
    return [("; ".join(names), ", ".join(dict.fromkeys(variants))) for variants, names in found.items()]


def markdown(lines: Sequence[Line], memory: Sequence[Memory]) -> str:
    """The generated part of docs/performance.md."""
    out = ["![speed of attention against torch](plots/attention.svg)", ""]
    out += ["| " + " | ".join(HEADERS) + " |", "|---|---|---|---|" + "--:|" * (len(HEADERS) - 4)]
    out += ["| " + " | ".join(line.cells) + " |" for line in lines]
    out += ["", "Inputs are the queries, keys, values and the gradient of the result.", ""]
    out += ["| " + " | ".join(MEMORY_HEADERS) + " |", "|---|---|--:|--:|--:|"]
    out += ["| " + " | ".join(one.cells) + " |" for one in memory]
    out += ["", "Kernels that ran, by their types and function constants:", "", "| rows | kernels |", "|---|---|"]
    out += [f"| {names} | `{variants}` |" for names, variants in used_variants(lines)]
    short = [f"- {line.name} {line.dtype}: {line.missed}" for line in lines if line.missed]
    short += [f"- peak memory of {one.size} {one.dtype}: {one.share:.2f} x" for one in memory if not one.met]
    return "\n".join(out + (["", "What falls short:", "", *short] if short else []))


def plot(lines: Sequence[Line]) -> str:
    """A line a row, a dot a peer and dtype."""
    dots = []
    for line in lines:
        for peer in PEERS:
            found = line.speed(peer)
            if found is not None:
                colour, shift = LOOKS[line.dtype]
                dots.append(Dot(line.name, found, colour, peer == "flash", shift))
    names = dict.fromkeys(dot.name for dot in dots)
    title = "speed against torch; blue: float32, green: float16, orange: bfloat16; ring: its flash kernel, dot: MATH"
    return draw(title, list(names), dots, left=330, low=-3)
