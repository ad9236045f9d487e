"""What `metalcore health` shows and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from metalcore.health.page import FUSED, page
from metalcore.health.report import as_json, as_junit, rows
from metalcore.health.run import Work, groups, run
from metalcore.health.verify import Outcome

_MOST_SHOWN = 20
_COLUMNS = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


@dataclass(frozen=True)
class Asked:
    """The options of the command; nothing chosen: everything."""

    ops: Sequence[str]
    dtypes: Sequence[str]
    routes: Sequence[str]
    cases: int | None
    seed: int | None
    jobs: int | None
    json: str | None
    junit: str | None
    html: str | None

    def run(self, work: Sequence[Work], label: Callable[[Any], str]) -> list[Outcome]:
        """What was found, with a bar on the way; `label` names the piece that is done."""
        outcomes: list[Outcome] = []
        with Progress(*_COLUMNS, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("compiling and running", total=len(work))
            for group, found in run(work, self.jobs or os.cpu_count() or 1):
                outcomes += found
                progress.update(task, advance=1, description=label(group))
        return outcomes

    @property
    def files(self) -> dict[str, str | None]:
        return {"json": self.json, "junit": self.junit, "html": self.html}


def health(asked: Asked) -> bool:
    """Run everything that is asked for; true where all is green."""
    work = groups(asked.ops, asked.dtypes, asked.routes, asked.cases, asked.seed)
    console = Console()
    outcomes = asked.run(work, lambda group: f"{group.noun} {group.dtype} {group.route}")
    outcomes.sort(key=lambda o: (o.noun, o.dtype, o.route, o.index))
    console.print(_table(outcomes))
    return conclude(console, outcomes, work[0].seed, asked.files)


def conclude(
    console: Console, outcomes: list[Outcome], seed: int, files: dict[str, str | None], about: str = FUSED
) -> bool:
    """Name what failed and write the files that are asked for; true where all is green."""
    failed = [o for o in outcomes if not o.passed]
    for outcome in failed[:_MOST_SHOWN]:
        console.print(f"FAIL {outcome.explain()}", markup=False, style="red", soft_wrap=True)
    if len(failed) > _MOST_SHOWN:
        console.print(f"... and {len(failed) - _MOST_SHOWN} more", style="red")
    text = f"{len(failed)} of {len(outcomes)} cases fail" if failed else f"all {len(outcomes)} cases pass"
    console.print(f"{text} (seed {seed})", style="red" if failed else "green")
    made = {
        "json": lambda: as_json(outcomes, seed),
        "junit": lambda: as_junit(outcomes),
        "html": lambda: page(outcomes, seed, about),
    }
    for kind, path in files.items():
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(made[kind]())
    return not failed and bool(outcomes)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("op", "dtype", "route", box=None)
    for name in ("cases", "failed", "error / allowed", "error / torch's", "seconds"):
        table.add_column(name, justify="right")
    for row in rows(outcomes):
        cells = [row.noun, row.dtype, row.route, str(row.cases), str(row.failed)]
        cells += [f"{row.worst:.2f}", f"{row.against_torch:.2f}", f"{row.seconds:.1f}"]
        table.add_row(*cells, style="red" if row.failed else None)
    return table
