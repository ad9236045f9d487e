"""`python -m tests.sanitizer.mutation`: exit status 0 where at least 95 % of the mutants that count are found."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.sanitizer.mutation.cases import CASES
from tests.sanitizer.mutation.judge import Outcome
from tests.sanitizer.mutation.mutants import Mutant, mutants_of, unchanged
from tests.sanitizer.mutation.pool import run_all
from tests.sanitizer.mutation.summary import TARGET, Summary, reason


def choose(count: int, seed: int, kernels: Sequence[str] = ()) -> list[Mutant]:
    """All mutants, or `count` of them by chance, the same ones for the same seed."""
    mutants = [
        m for case in CASES.values() if not kernels or case.name in kernels for m in mutants_of(case.name, case.source)
    ]
    if 0 < count < len(mutants):
        mutants = random.Random(seed).sample(mutants, count)
    return mutants


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many mutants, chosen by chance (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice")
    parser.add_argument(
        "--kernel", action="append", default=[], choices=sorted(CASES), help="mutants of this kernel only"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--write-docs", action="store_true", help="write the summary into docs/sanitizer.md")
    return parser.parse_args()


def _run(mutants: list[Mutant], processes: int, console: Console) -> list[Outcome]:
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with tempfile.TemporaryDirectory() as cache, Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(mutants))
        outcomes = []
        for outcome in run_all(mutants, processes, cache):
            outcomes.append(outcome)
            progress.advance(task)
            if not console.is_terminal and len(outcomes) % 50 == 0:
                console.print(f"{len(outcomes)} of {len(mutants)} mutants")
    return outcomes


def _print(summary: Summary, console: Console) -> None:
    table = Table("change", *("mutants", "result changes", "counted", "found", "share"))
    for row in summary.rows():
        table.add_row(*map(str, row))
    console.print(table)
    for o in summary.missed:
        console.print(f"not found: {o.id} line {o.line}, {o.change}: {o.after}", markup=False)
        console.print(f"  {reason(o)}", markup=False)
    for o in summary.broken:
        console.print(f"{o.id} line {o.line}, {o.change}: {o.after}: {o.error}", markup=False)
    console.print(f"plain wrong answers (index mutants, listed in the JSON): {len(summary.plain)}")
    console.print(f"found {len(summary.found)} of {len(summary.counted)}: {summary.rate:.1%}, target {TARGET:.0%}")


def main() -> int:
    options = _options()
    console = Console()
    mutants = choose(options.count, options.seed, options.kernel)
    originals = [unchanged(case.name, case.source) for case in CASES.values()]
    outcomes = _run([*originals, *mutants], options.processes, console)
    wrong = [o for o in outcomes if o.change == "none" and (o.changed or o.is_found or o.seeded_kinds or o.error)]
    for o in wrong:
        console.print(f"the kernel itself is not clean: {o}", markup=False)
    summary = Summary([o for o in outcomes if o.change != "none"])
    _print(summary, console)
    if options.json:
        options.json.write_text(summary.json(options.seed))
    if options.write_docs:
        summary.write_docs()
    return 0 if summary.is_met and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
