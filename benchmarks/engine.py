"""How fast the engine runs Metal kernels, against C++, torch and PoCL on the same processor.

    python benchmarks/engine.py                       every row, five processes
    python benchmarks/engine.py --only rms_norm --quick
    python benchmarks/engine.py --write-docs          rewrites the generated part of docs/performance.md

Every result is compared with float64 NumPy before it is timed. All contestants are timed in turns in one process,
ratios are taken within a process, and the median over processes is shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from harness.options import row_options
from harness.progress import steps
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "performance.md"
# Without these, malloc gives large blocks back to the system, and page faults are half of what is timed.
WIDTH = 180  # of the table, where the output is no terminal
QUIET_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def run_worker(
    order: dict[str, Any], module: str = "harness.worker", environment: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Starts one process and yields its lines as they come. `environment` instead of this one with a quiet malloc."""
    given = {**os.environ, **QUIET_MALLOC} if environment is None else environment
    worker = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**given, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])},
    )
    assert worker.stdin is not None and worker.stdout is not None
    with worker:
        worker.stdin.write(json.dumps(order))
        worker.stdin.close()
        for line in worker.stdout:
            yield json.loads(line)
    if worker.returncode != 0:
        raise click.ClickException(f"a benchmark process ended with code {worker.returncode}")


@click.command(help=__doc__)
@row_options("One process, small sizes, short samples, one thread.")
@click.option("--processes", type=click.IntRange(1), default=None, help="How many processes (5, or 1 with --quick).")
@click.option("--no-opencl", is_flag=True, help="Leave PoCL out.")
def main(
    only: tuple[str, ...], quick: bool, processes: int | None, json_path: Path | None, write_docs: bool, no_opencl: bool
) -> None:
    from harness import peers, report, rows, system

    chosen = rows.chosen(only, quick)
    if write_docs and (only or quick):
        raise click.UsageError("--write-docs needs every row: leave --only and --quick out")
    count = processes or (1 if quick else 5)
    threads = [1] if quick else [1, 2]
    table = {case.key: report.Row(case) for case in chosen}
    costs: list[dict[str, float]] = []
    raw: list[dict[str, Any]] = []
    with_system = not only or "system" in only
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    with tempfile.TemporaryDirectory() as folder, steps(console) as progress:
        library = Path(folder) / "peers.so"
        peers.build(library)
        progress.expect(count * (len(chosen) * len(threads) + with_system))
        for process in range(count):
            order = {
                "keys": [case.key for case in chosen],
                "library": str(library),
                "budget": 0.5 if quick else 1.5,
                "threads": threads,
                "opencl": not no_opencl,
            }
            for line in run_worker(order) if chosen else ():
                raw.append({"process": process, **line})
                row = table[line["case"]]
                if "error" in line:
                    row.errors.append(line["error"])
                else:
                    (row.one if line["threads"] == 1 else row.two).append(line["seconds"])
                progress.done(line["case"])
            if with_system:
                costs.append(system.measure())
                raw.append({"process": process, "costs": costs[-1]})
                progress.done("launch, compile, cache")
    found = list(table.values())
    others = report.figures(found, costs)
    show(console, found, others)
    if json_path is not None:
        json_path.write_text(json.dumps({"machine": report.machine(), "timings": raw}, indent=1) + "\n")
    if write_docs:
        report.write_document(DOCUMENT, report.markdown(found, others, count))
        console.print(f"wrote docs/{DOCUMENT.name}")
    failed = [row for row in found if row.errors]
    for row in failed:
        console.print(f"[red]{row.case.key}[/red]: {row.errors[0]}", highlight=False)
    sys.exit(1 if failed else 0)


def show(console: Console, found: list[Any], others: list[Any]) -> None:
    """Both tables on the screen. Bold figures miss their target."""
    from harness import report

    def styled(text: str) -> str:
        return f"[bold red]{text.strip('*')}[/bold red]" if text.startswith("**") else text

    if found:
        table = Table(title="speed against others (2.00: twice as fast)")
        for number, header in enumerate(report.HEADERS):
            table.add_column(header, justify="left" if number < 2 else "right", no_wrap=number < 2)
        for row in found:
            table.add_row(*map(styled, report.cells(row)))
        console.print(table)
    table = Table()
    for header in ("what", "found", "target", "met"):
        table.add_column(header)
    for figure in others:
        table.add_row(*map(styled, figure.cells()))
    console.print(table)


def restart_with_quiet_malloc() -> None:
    """The settings of malloc are read when a process starts, so this one starts itself again."""
    if any(os.environ.get(name) != value for name, value in QUIET_MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **QUIET_MALLOC})


if __name__ == "__main__":
    restart_with_quiet_malloc()
    main()
