"""What sanitize mode costs: time against `fast`, memory against the buffers, for the engine's benchmark kernels.

    python benchmarks/sanitizer.py                     every row, three processes
    python benchmarks/sanitizer.py --only rms_norm --quick
    python benchmarks/sanitizer.py --write-docs        rewrites the figures in docs/sanitizer.md

Every result is compared with float64 NumPy before it is timed, in both modes, and sanitize mode must find nothing.
Both modes are timed in turns in one process with one thread. Ratios are taken within a process, and the median over
processes is shown. Memory is the peak of a process of its own for each row.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from engine import WIDTH, restart_with_quiet_malloc, run_worker
from harness.options import row_options
from harness.progress import steps
from rich.console import Console
from rich.table import Table

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "sanitizer.md"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
TIME_TARGET, MEMORY_TARGET = 4.0, 3.0
HEADERS = ("kernel", "size", "fast", "sanitize", "time, x", "memory, x", "findings")


@dataclass
class Row:
    """What was measured of one kernel at one size."""

    kernel: str
    size: str
    seconds: list[dict[str, float]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    memory: float | None = None  # buffers and what sanitize mode adds, against the buffers
    errors: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        return statistics.median(s["sanitize"] / s["fast"] for s in self.seconds) if self.seconds else None

    def add(self, line: dict[str, Any]) -> None:
        if "error" in line:
            self.errors.append(line["error"])
        elif "buffers" in line:
            self.memory = (line["buffers"] + line["extra"]) / line["buffers"]
        else:
            self.seconds.append(line["seconds"])
            self.findings = line["findings"]

    def cells(self) -> list[str]:
        if not self.seconds:
            return [self.kernel, self.size, *["-"] * 4, "; ".join(self.errors) or "-"]
        fast, slow = (statistics.median(s[name] for s in self.seconds) for name in ("fast", "sanitize"))
        memory = "-" if self.memory is None else _over(self.memory, MEMORY_TARGET)
        found = "; ".join(self.findings + self.errors) or "none"
        return [self.kernel, self.size, _time(fast), _time(slow), f"{slow / fast:.1f}", memory, found]


def _over(value: float, target: float) -> str:
    return f"**{value:.2f}**" if value > target else f"{value:.2f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def summary(rows: Sequence[Row]) -> list[list[str]]:
    """The figures with their targets: what, found, target, met."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    memories = [row.memory for row in rows if row.memory is not None]
    mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None
    largest = max(memories, default=None)
    found = sum(len(row.findings) for row in rows)
    return [
        _figure("time of sanitize against fast, geometric mean", mean, TIME_TARGET),
        _figure("memory against the buffers, the largest", largest, MEMORY_TARGET),
        ["findings in these correct kernels", str(found), "none", "yes" if not found else "**no**"],
    ]


def _figure(name: str, value: float | None, target: float) -> list[str]:
    shown = "-" if value is None else f"{value:.2f} x"
    return [name, shown, f"at most {target:g} x", "yes" if value is not None and value <= target else "**no**"]


def markdown(rows: Sequence[Row], processes: int) -> str:
    """The figures as they stand in the document."""
    lines = [
        f"Made by `python benchmarks/sanitizer.py --write-docs` (one thread, median of {processes} processes).",
        "",
    ]
    lines += ["| what | found | target | met |", "|---|--:|--:|--:|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in summary(rows)]
    lines += ["", "| " + " | ".join(HEADERS) + " |", "|---|---|" + "--:|" * 4 + "---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def write_document(path: Path, text: str) -> None:
    """Put the figures between their two marks; the rest of the page stays."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    if BEGIN not in page or END not in page:
        raise click.ClickException(
            f"docs/{path.name} has no block {BEGIN} ... {END}: put one under its heading Figures"
        )
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def show(console: Console, rows: Sequence[Row]) -> None:
    """Both tables on the screen; what misses its target is red."""

    def styled(text: str) -> str:
        return f"[bold red]{text.strip('*')}[/bold red]" if text.startswith("**") else text

    table = Table(title="sanitize against fast, one thread")
    for number, header in enumerate(HEADERS):
        table.add_column(header, justify="right" if 1 < number < 6 else "left", no_wrap=number < 6)
    for row in rows:
        table.add_row(*map(styled, row.cells()))
    console.print(table)
    table = Table()
    for header in ("what", "found", "target", "met"):
        table.add_column(header)
    for cells in summary(rows):
        table.add_row(*map(styled, cells))
    console.print(table)


def orders(keys: Sequence[str], library: str, processes: int, budget: float, memory: bool) -> Iterator[dict[str, Any]]:
    """What each process is told to do."""
    for _ in range(processes):
        yield {"keys": list(keys), "library": library, "budget": budget, "memory": False}
    if memory:
        for key in keys:  # a process of its own: what one row leaves behind must not count for the next
            yield {"keys": [key], "library": library, "budget": budget, "memory": True}


@click.command(help=__doc__)
@row_options("One process, small sizes, short samples.", "the figures in docs/sanitizer.md")
@click.option("--processes", type=click.IntRange(1), default=None, help="How many processes (3, or 1 with --quick).")
@click.option("--no-memory", is_flag=True, help="Do not measure memory.")
def main(
    only: tuple[str, ...], quick: bool, processes: int | None, json_path: Path | None, no_memory: bool, write_docs: bool
) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    raw: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, steps(console) as progress:
        from harness import peers, report, rows, sanitize

        chosen = rows.chosen(only, quick)
        if write_docs and (only or quick or no_memory):
            raise click.UsageError("--write-docs needs every row: leave --only, --quick and --no-memory out")
        if not chosen:
            raise click.UsageError(f"no row is called {' or '.join(only)}")
        memory = not no_memory and sanitize.CLEAR.exists()
        count = processes or (1 if quick else 3)
        table = {case.key: Row(case.kernel, case.size) for case in chosen}
        library = Path(folder) / "peers.so"
        peers.build(library)
        progress.expect(len(chosen) * (count + memory))
        for order in orders(list(table), str(library), count, 0.5 if quick else 2.0, memory):
            for line in run_worker(order, "harness.sanitize"):
                raw.append(line)
                table[line["case"]].add(line)
                progress.done(f"{line['case']}{', memory' if order['memory'] else ''}")
    found = list(table.values())
    show(console, found)
    if json_path is not None:
        json_path.write_text(json.dumps({"machine": report.machine(), "figures": raw}, indent=1) + "\n")
    if write_docs:
        write_document(DOCUMENT, markdown(found, count))
        console.print(f"wrote docs/{DOCUMENT.name}")
    sys.exit(1 if any(row.errors or row.findings for row in found) else 0)


if __name__ == "__main__":
    restart_with_quiet_malloc()
    main()
