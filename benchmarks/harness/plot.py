"""A plot of ratios as SVG: a line for each name, dots on a scale of powers of two, 1 in red."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STEP, TOP, RIGHT = 22, 34, 880
BLUE, GREEN, ORANGE = "#2563eb", "#059669", "#d97706"


@dataclass(frozen=True)
class Dot:
    name: str  # its line
    ratio: float
    colour: str
    is_ring: bool = False
    shift: int = 0  # down from the line's middle, so that dots of one ratio are all seen


def plot(title: str, names: Sequence[str], dots: Sequence[Dot], left: int = 170, low: int = -2, high: int = 5) -> str:
    height = TOP + STEP * len(names) + 26

    def x(ratio: float) -> float:
        return left + (min(max(math.log2(ratio), low), high) - low) * (RIGHT - left) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="900" height="{height}" fill="white"/>',
        f'<text x="{left}" y="14">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at = x(2.0**power)
        colour = "#dc2626" if power == 0 else "#e5e7eb"
        out.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{TOP - 10}" y2="{height - 22}" stroke="{colour}"/>')
        out.append(f'<text x="{at:.0f}" y="{height - 6}" text-anchor="middle">{2.0**power:g}</text>')
    for i, name in enumerate(names):
        y = TOP + i * STEP
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        for dot in dots:
            if dot.name == name:
                style = f'fill="none" stroke="{dot.colour}"' if dot.is_ring else f'fill="{dot.colour}"'
                out.append(f'<circle cx="{x(dot.ratio):.0f}" cy="{y + dot.shift}" r="3.5" {style}/>')
    return "\n".join([*out, "</svg>", ""])
