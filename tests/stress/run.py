"""The long run: `python -m tests.stress.run --count 2000 --seed 1`.

Goes on where it stopped (the state is a small JSON file), prints each failing seed, and with --shrink makes the failing
kernel small. `--only 17` checks one seed and shows it whole.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.stress import tree as t
from tests.stress.check import Outcome, check, report
from tests.stress.generate import generate
from tests.stress.shrink import shrink
from tests.stress.worker import Engine

console = Console(highlight=False, soft_wrap=True)


class State:
    """Seeds done and seeds that failed, on disk after every kernel."""

    def __init__(self, path: Path, seed: int, fresh: bool) -> None:
        self.path = path
        self.data: dict[str, dict[str, str]] = {}
        if path.exists() and not fresh:
            self.data = json.loads(path.read_text())
        self.mine = self.data.setdefault(str(seed), {})

    def done(self, seed: int) -> bool:
        return str(seed) in self.mine

    def add(self, seed: int, outcome: Outcome) -> None:
        self.mine[str(seed)] = "agree" if outcome.good else f"{outcome.kind}: {outcome.detail}"
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data))
        part.replace(self.path)


def check_all(seeds: Iterable[int], processes: int, keep_tests: bool) -> Iterator[tuple[int, Outcome]]:
    """Outcomes in the order of the seeds; each thread has an engine, which is a process, of its own."""
    own = threading.local()
    engines: list[Engine] = []

    def one(seed: int) -> tuple[int, Outcome]:
        if not hasattr(own, "engine"):
            own.engine = Engine(keep_tests=keep_tests)
            engines.append(own.engine)
        return seed, check(generate(seed), own.engine, "checked" if keep_tests else "")

    pool = ThreadPoolExecutor(processes)
    try:
        yield from pool.map(one, seeds)
    finally:
        pool.shutdown(cancel_futures=True)
        for engine in engines:
            engine.close()


def smallest(kernel: t.Kernel, outcome: Outcome, engine: Engine) -> tuple[t.Kernel, Outcome]:
    """The smallest kernel with a fault of the same kind (for a compile error: with the same words)."""
    found = outcome

    def words(o: Outcome) -> str:
        return o.detail.split("\n")[0].split(":")[0] if o.kind == "error" else ""

    def fails(candidate: t.Kernel) -> bool:
        nonlocal found
        now = check(candidate, engine)
        same = now.kind == outcome.kind and words(now) == words(outcome)
        if same:
            found = now
        return same

    with console.status("shrinking") as status:
        small = shrink(kernel, fails, status.update)
    return small, found


def show(seed: int, outcome: Outcome, kernel: t.Kernel, engine: Engine, shrinks: bool) -> None:
    if shrinks and outcome.kind not in ("invalid", "hang"):
        kernel, outcome = smallest(kernel, outcome, engine)
    console.print(report(kernel, outcome), markup=False)


@click.command()
@click.option("--count", default=2000, show_default=True, help="How many kernels.")
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--only", type=int, default=None, help="Check this seed alone and print it.")
@click.option("--shrink", "shrinks", is_flag=True, help="Make failing kernels small.")
@click.option("--fresh", is_flag=True, help="Forget what an earlier run has done.")
@click.option("--stop", default=20, show_default=True, help="Give up after so many failures.")
@click.option("--processes", default=os.cpu_count() or 1, show_default=True, help="How many engines run at once.")
@click.option("--keep-tests", is_flag=True, help="In checked mode, without leaving out tests of bounds as proven.")
@click.option("--state", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "metalcore-stress.json")
def main(
    count: int,
    seed: int,
    only: int | None,
    shrinks: bool,
    fresh: bool,
    stop: int,
    processes: int,
    keep_tests: bool,
    state: Path,
) -> None:
    """Runs random kernels on the engine and on the interpreter and compares every bit."""
    engine = Engine(keep_tests=keep_tests)
    if only is not None:
        kernel = generate(only)
        outcome = check(kernel, engine)
        show(only, outcome, kernel, engine, shrinks and not outcome.good)
        raise SystemExit(0 if outcome.good else 1)
    store = State(state, seed, fresh)
    mine = range(seed, seed + count)
    failed = [number for number in mine if store.done(number) and store.mine[str(number)] != "agree"]
    left = [number for number in mine if not store.done(number)]
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("kernels", total=count, completed=count - len(left), failed=len(failed))
        for number, outcome in check_all(left, processes, keep_tests):
            store.add(number, outcome)
            if not outcome.good:
                failed.append(number)
                progress.console.print(f"seed {number}: {outcome.kind}: {outcome.detail[:300]}", markup=False)
            progress.update(task, advance=1, failed=len(failed))
            if len(failed) >= stop:
                break
    if shrinks:
        for number in failed:
            kernel = generate(number)
            outcome = check(kernel, engine)
            if not outcome.good:
                show(number, outcome, kernel, engine, True)
    engine.close()
    console.print(f"{len(failed)} of {len(store.mine)} kernels fail" + (f": seeds {failed}" if failed else ""))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
