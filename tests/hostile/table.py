"""Counts as a table, and docs/reliability.md."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.generate import FAMILIES, family_of
from tests.hostile.runner import KEPT, Counts
from tests.hostile.worker import MODES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- hostile:begin -->", "<!-- hostile:end -->"


def table(counts: Counts) -> str:
    modes = [m for m in (*MODES, KEPT) if any(key.endswith(f"/{m}") for key in counts.launches)]
    rows = [f"| family | {' | '.join(modes)} | out of bounds | failures |", "|---|" + "--:|" * (len(modes) + 2)]
    for family in (*FAMILIES, "all"):
        keys = [k for k in counts.launches if family in ("all", k.split("/")[0])]
        ran = [sum(counts.launches[k] for k in keys if k.endswith(f"/{m}")) for m in modes]
        outside = sum(counts.launches[k] - counts.inside[k] for k in keys)
        failed = sum(1 for f in counts.failures if family in ("all", family_of(f.seed)))
        rows.append(f"| {family} | {' | '.join(f'{n:,}' for n in ran)} | {outside:,} | {failed:,} |")
    return "\n".join(rows)


def write_docs(counts: Counts, seed: int) -> None:
    """Puts the table between the marks of docs/reliability.md."""
    text = DOCS.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    kinds = {kind: sum(f.kind == kind for f in counts.failures) for kind in ("crash", "hang", "canary", "missed")}
    said = ", ".join(f"{kind} {n}" for kind, n in kinds.items())
    wrong = len(counts.failures) - sum(kinds.values())
    head = f"{counts.total:,} launches of {counts.kernels:,} kernels, seeds from {seed}: {said}, "
    head += f"wrong value or error {wrong}."
    DOCS.write_text(f"{text[:start]}\n{head}\n\n{table(counts)}\n{text[end:]}")
