"""The long run: `python -m tests.hostile --launches 20000 --seed 1 --processes 2`."""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

import click

from tests.hostile import table
from tests.hostile.runner import Counts, Failure, Runner, explain


@click.command()
@click.option("--launches", default=20000, show_default=True, help="How many launches; modes count apart.")
@click.option("--seed", default=1, show_default=True, help="The first kernel's seed.")
@click.option("--processes", default=2, show_default=True, help="How many processes run launches.")
@click.option("--per-kernel", default=30, show_default=True, help="Launches drawn for each kernel, before modes.")
@click.option("--only", type=int, default=None, help="Run the launches of this seed alone, and explain what fails.")
@click.option("--stop", default=0, help="End after so many failures (0: never).")
@click.option("--explain", "explains", default=10, show_default=True, help="Make so many failures small.")
@click.option("--keep-tests", is_flag=True, help="Run each launch in the build that keeps every bounds test, too.")
@click.option("--state", type=click.Path(path_type=Path), default=None, help="File from which a stopped run goes on.")
@click.option("--fresh", is_flag=True, help="Forget what an earlier run has done.")
@click.option("--write-docs", is_flag=True, help="Put the table into docs/reliability.md.")
def main(
    launches: int,
    seed: int,
    processes: int,
    per_kernel: int,
    only: int | None,
    stop: int,
    explains: int,
    keep_tests: bool,
    state: Path | None,
    fresh: bool,
    write_docs: bool,
) -> None:
    """Runs hostile launches and compares each with the oracle."""
    runner = Runner(processes if only is None else 1, per_kernel, keep_tests=keep_tests)
    seeds = itertools.count(seed) if only is None else [only]
    name = f"metalcore-hostile-{seed}-{per_kernel}{'-kept' * keep_tests}.json"
    runner.state = None if only is not None else state or Path(tempfile.gettempdir()) / name
    if runner.state is not None and runner.state.exists() and not fresh:
        runner.counts = Counts.from_json(runner.state.read_text())
        print(f"goes on from {runner.state}: {runner.counts.total} launches are done")
    counts = runner.run(seeds, None if only is not None else launches, tell=2.0, stop=stop)
    for failure in counts.failures:
        print(failure.text[:400])
    for failure in first_of_each(counts.failures)[:explains]:
        print("-" * 100)
        print(explain(failure), flush=True)
    print(table.table(counts))
    if write_docs:
        table.write_docs(counts, seed)
    sys.exit(1 if counts.failures else 0)


def first_of_each(failures: list[Failure]) -> list[Failure]:
    """One failure of each kernel and kind."""
    return list({(f.seed, f.kind): f for f in reversed(failures)}.values())[::-1]


if __name__ == "__main__":
    main()
