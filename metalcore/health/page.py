"""The HTML page: a table, and for each op its errors (as a share of what is allowed) and its times, drawn as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from metalcore.health.report import Row, rows
from metalcore.health.verify import Outcome

_COLOURS = {"float32": "#2563eb", "float16": "#d97706", "bfloat16": "#059669"}
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #1f2937; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .6rem; border-bottom: 1px solid #e5e7eb }
td { text-align: right } td:nth-child(-n+3), th:nth-child(-n+3) { text-align: left } .bad { background: #fee2e2 }
svg { display: block; width: 100%; height: auto } text { font: 11px system-ui, sans-serif; fill: #374151 }
"""


FUSED = """Error: against float64, over what is allowed (twice torch's error in the same dtype for results, three times
for gradients). Below 1 is good."""
LINALG = """Error: LAPACK's test ratio in units of n * eps, over what is allowed (30 for linear systems and QR, 35 for
singular values, 60 for eigenvalues). Below 1 is good."""


def page(outcomes: list[Outcome], seed: int, about: str = FUSED) -> str:
    found = rows(outcomes)
    failed = [o for o in outcomes if not o.passed]
    verdict = f"{len(failed)} of {len(outcomes)} cases fail" if failed else f"all {len(outcomes)} cases pass"
    parts = [
        "<!doctype html><meta charset='utf-8'><title>metalcore health</title>",
        f"<style>{_STYLE}</style><h1>metalcore health: {verdict}</h1>",
        f"<p>Seed {seed}. {about}</p>",
        _legend(),
        "<h2>Errors</h2>",
        _plot(found, outcomes, _share, "error / allowed", limit=1.0),
        "<h2>Times of a case</h2>",
        _plot(found, outcomes, lambda o: [o.seconds], "seconds, compilation included"),
        "<h2>Table</h2>",
        _table(found),
    ]
    if failed:
        parts.append("<h2>Failures</h2><ul>" + "".join(f"<li>{html.escape(o.explain())}" for o in failed) + "</ul>")
    return "\n".join(parts)


def _share(outcome: Outcome) -> Iterable[float]:
    return (m.error / m.limit for m in outcome.measures if m.limit)


def _legend() -> str:
    return "<p>" + " ".join(f"<b style='color:{c}'>{d}</b>" for d, c in _COLOURS.items()) + "</p>"


def _table(found: Sequence[Row]) -> str:
    head = ["op", "dtype", "route", "cases", "failed", "error/allowed", "error/torch's", "seconds"]
    lines = ["<table><tr>" + "".join(f"<th>{h}</th>" for h in head) + "</tr>"]
    for r in found:
        cells = [
            r.noun,
            r.dtype,
            r.route,
            r.cases,
            r.failed,
            f"{r.worst:.2f}",
            f"{r.against_torch:.2f}",
            f"{r.seconds:.2f}",
        ]
        row = "".join(f"<td>{html.escape(str(c))}</td>" for c in cells)
        lines.append(f"<tr class='{'bad' if r.failed else ''}'>{row}</tr>")
    return "".join(lines) + "</table>"


def _plot(found: Sequence[Row], outcomes: Sequence[Outcome], values: object, label: str, limit: float = 0.0) -> str:
    """One line an op, a dot a value, on a scale of powers of ten."""
    assert callable(values)
    names = sorted({r.noun for r in found})
    left, right, line, top = 170, 980, 20, 30
    logs = [math.log10(v) for o in outcomes for v in values(o) if 0 < v < math.inf]
    low, high = math.floor(min(logs, default=0.0)), max(math.ceil(max(logs, default=0.0)), 1 if limit else -9)
    scale = (right - left) / max(high - low, 1)

    def x(value: float) -> float:
        return left + (max(math.log10(value), low) - low) * scale if 0 < value < math.inf else left

    height = top + line * len(names) + 20
    out = [f"<svg viewBox='0 0 1000 {height}'><text x='{left}' y='12'>{label}</text>"]
    for power in range(low, high + 1):
        at = left + (power - low) * scale
        out.append(f"<line x1='{at:.0f}' x2='{at:.0f}' y1='{top - 8}' y2='{height - 18}' stroke='#e5e7eb'/>")
        out.append(f"<text x='{at:.0f}' y='{height - 4}' text-anchor='middle'>{10.0**power:g}</text>")
    if limit:
        out.append(
            f"<line x1='{x(limit):.0f}' x2='{x(limit):.0f}' y1='{top - 8}' y2='{height - 18}' stroke='#dc2626'/>"
        )
    for i, name in enumerate(names):
        y = top + i * line
        out.append(f"<text x='{left - 8}' y='{y + 4}' text-anchor='end'>{html.escape(name)}</text>")
        for k, (dtype, colour) in enumerate(_COLOURS.items()):
            places = {round(x(v)) for o in outcomes if (o.noun, o.dtype) == (name, dtype) for v in values(o)}
            dots = "".join(f"<circle cx='{p}' cy='{y + 4 * k - 4}' r='2'/>" for p in sorted(places))
            out.append(f"<g fill='{colour}' fill-opacity='.5'>{dots}</g>")
    return "".join(out) + "</svg>"
