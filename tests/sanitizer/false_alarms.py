"""No false alarm: correct kernels with every launch in sanitize mode, and what it said about them.

    python -m tests.sanitizer.false_alarms                         everything (long)
    python -m tests.sanitizer.false_alarms --part demo --part stress
    python -m tests.sanitizer.false_alarms --part foreign -k softmax
    python -m tests.sanitizer.false_alarms --part foreign --sweep  all instantiations of the corpus

Tests that make a mistake on purpose are in EXPECTED, true findings in code of others in KNOWN, with reasons. The exit
status is 1 where something else was found, or a test ended otherwise than without the sanitizer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
RUNS = "tests/sanitizer/alarm_runs.py"
PARTS: dict[str, tuple[str, ...]] = {
    "demo": (f"{RUNS}::test_demo",),
    "benchmarks": (f"{RUNS}::test_benchmark",),
    "stress": (f"{RUNS}::test_stress",),
    "language": ("tests/engine/language",),
    "library": ("tests/engine/include", "tests/engine/math"),
    "lockstep": ("tests/engine/lockstep",),
    "runtime": ("tests/engine/runtime", "tests/dropins", "tests/launch"),
    "foreign": ("tests/foreign",),
}


@dataclass(frozen=True)
class Expected:
    """A finding, or a test that ends otherwise, that is right: where, the kind, why. Where is the pattern of its tests,
    or for code of others that was looked at the end of its path with the line."""

    where: str
    kind: str  # "*" for all; "failed" for a test that wants an error which sanitize mode does not raise
    reason: str


_BARRIERS = "tests/engine/language/test_barriers.py::"
_RETURNS = "threads return before a barrier on purpose: Metal wants all of them there, the engine goes on without"
_DROPPED = "the random kernel reads a lane that is not active and drops the value: the read is what this kind names"
_LOCKSTEP = "tests/engine/lockstep/"
_SINK = "all threads store the same number to `sink`, so that a loop is not optimised away"
_ON_PURPOSE = "the test wants the error that checked mode raises out of bounds; sanitize mode reports it instead"
EXPECTED: tuple[Expected, ...] = (
    Expected(f"{_BARRIERS}test_early_return", "barrier-divergence", _RETURNS),
    Expected(f"{_BARRIERS}test_simdgroup_returns_early", "barrier-divergence", _RETURNS),
    Expected("tests/foreign/test_mlx_indexing.py::test_scatter_past_the_end_stops", "*", _ON_PURPOSE),
    Expected(f"{_LOCKSTEP}test_atomics.py::test_an_exchange_out_of_bounds_ends", "*", _ON_PURPOSE),
    Expected(
        f"{_LOCKSTEP}test_flat.py::test_a_fault_names_the_thread_and_not_its_place_in_the_loop*", "*", _ON_PURPOSE
    ),
    Expected(f"{_LOCKSTEP}test_wrapping.py::test_numbers_wrap_lane_by_lane*", "same-value-race", _SINK),
    *(Expected(f"{RUNS}::test_stress[[]{seed}]", "inactive-lane", _DROPPED) for seed in (1, 13, 46, 65, 68)),
)


_BATCH = "a threadgroup holds several transforms; the threads of those behind the end of the batch return before it"
_GEMV = "it stands inside `if (thrN == 0)`"
_EDGE = "it stands inside `if (out_col < out_vec_size)`, which differs between the simdgroups at the right edge"
_BACK = "the last rows or columns are moved back to a full block, so two threadgroups write the same results: benign"
_NO_FENCE = "written in front of a barrier with mem_none, which orders no memory, and read behind it"
_SPARE = "lanes behind the last simdgroup read slots that nobody wrote, and compare them; their results are dropped"
KNOWN: tuple[Expected, ...] = (
    *(Expected(f"kernels/fft.h:{line}", "barrier-divergence", _BATCH) for line in (181, 194, 273)),
    Expected("kernels/gemv.h:219", "barrier-divergence", _GEMV),
    Expected("kernels/gemv.h:226", "wrong-fence", _NO_FENCE),
    Expected("kernels/gemv.h:242", "same-value-race", _BACK),
    Expected("kernels/gemv.h:350", "barrier-divergence", _EDGE),
    Expected("kernels/gemv.h:429", "same-value-race", _BACK),
    Expected("kernels/quantized.h:1119", "same-value-race", _BACK),
    Expected("kernels/reduction/reduce_row.h:302", "same-value-race", _BACK),
    Expected("kernels/scan.h:335", "uninitialised-threadgroup-memory", _SPARE),
)
Finding = dict[str, Any]


@dataclass
class Outcome:
    """All that a run said."""

    tests: int = 0
    launches: int = 0
    alarms: dict[tuple[str, str], list[tuple[str, Finding]]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[str, str] = field(default_factory=dict)
    crashed: list[str] = field(default_factory=list)
    expected: dict[Expected, int] = field(default_factory=lambda: defaultdict(int))

    def read(self, lines: Iterable[str]) -> None:
        """The lines that the collector of one process wrote."""
        running: dict[str, None] = {}
        for line in lines:
            entry = json.loads(line)
            test = entry["test"]
            if entry["state"] == "started":
                running[test] = None
                continue
            running.pop(test, None)
            self.tests += 1
            self.launches += entry["launches"]
            self._ended(test, entry)
        self.crashed += running

    def _ended(self, test: str, entry: dict[str, Any]) -> None:
        for finding in entry["findings"]:
            place = f"{short(finding['file'])}:{finding['line']}"
            known = expected(test, finding["kind"]) or is_known(place, finding["kind"])
            if known:
                self.expected[known] += 1
            else:
                self.alarms[finding["kind"], place].append((test, finding))
        if entry["state"] == "failed":
            known = expected(test, "failed")
            if known:
                self.expected[known] += 1
            else:
                self.failed[test] = entry["why"]

    @property
    def clean(self) -> bool:
        return not (self.alarms or self.failed or self.crashed)


def expected(test: str, kind: str) -> Expected | None:
    """The entry of the list that covers this."""
    return next((e for e in EXPECTED if e.kind in (kind, "*") and fnmatchcase(test, e.where)), None)


def is_known(place: str, kind: str) -> Expected | None:
    return next((k for k in KNOWN if k.kind == kind and place.endswith(k.where)), None)


def short(file: str) -> str:
    """The end of a path: enough to know the file, nothing of this computer."""
    return "/".join(Path(file).parts[-3:])


def run_part(tests: Sequence[str], options: Sequence[str], jobs: int, seed: int | None, limit: float) -> Outcome:
    """Run pytest in a process of its own and read what its workers wrote."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.sanitizer.collector",
            f"--collect-findings={file}",
        ]
        # Workers of pytest-xdist: one that dies costs one test.
        command += ["-n", str(jobs), "--no-header", "-p", "no:cacheprovider", *options, *tests]
        command += [f"--collect-seed={seed}"] if seed is not None else []
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
            if done.returncode not in (0, 1, 5):
                outcome.failed["pytest"] = (done.stderr or done.stdout).strip()[-2000:]
        except subprocess.TimeoutExpired:
            outcome.failed["pytest"] = f"not done in {limit:.0f} s; what is below was still running, or is missing"
        for path in sorted(Path(folder).glob("found.*")):
            outcome.read(path.read_text(encoding="utf-8").splitlines())
    return outcome


def show(console: Console, part: str, outcome: Outcome, each: bool) -> None:
    """What was found, by kind and line."""
    state = "[green]clean[/green]" if outcome.clean else "[red]not clean[/red]"
    console.print(f"[bold]{part}[/bold]: {outcome.tests} tests, {outcome.launches} launches, {state}")
    for (kind, place), found in sorted(outcome.alarms.items()):
        kernels = sorted({finding["kernel"] for _, finding in found})
        tests = sorted({test for test, _ in found})
        console.print(f"  [red]{kind}[/red] {place}: {len(tests)} tests, {len(kernels)} kernels")
        console.print(f"    {found[0][1]['text']}", markup=False, soft_wrap=True)
        for test in tests if each else tests[:2]:
            console.print(f"    in {test}", markup=False, soft_wrap=True)
    for test, why in sorted(outcome.failed.items()):
        console.print(f"  [red]failed[/red] {test}: {why}", soft_wrap=True, highlight=False)
    for test in outcome.crashed:
        console.print(f"  [red]crashed or did not end[/red] {test}", soft_wrap=True, highlight=False)
    for known, count in outcome.expected.items():
        text = f"  expected {count}x: {known.kind} in {known.where}: {known.reason}"
        console.print(text, markup=False, soft_wrap=True)


@click.command(help=__doc__)
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this part (may be repeated)."
)
@click.option("-k", "keyword", default="", help="Only tests that match, as pytest's -k.")
@click.option("--sweep", is_flag=True, help="The heavy cases of the corpus too.")
@click.option("--jobs", "-j", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--seed", type=int, default=None, help="Random order of threads, repeated by the seed.")
@click.option("--limit", default=3600.0, show_default=True, help="Seconds for one part.")
@click.option("--each", is_flag=True, help="Name every test, not two of each.")
def main(
    parts: tuple[str, ...], keyword: str, sweep: bool, jobs: int, seed: int | None, limit: float, each: bool
) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=160)
    options = [*(["-k", keyword] if keyword else []), *(["-m", "sweep or not sweep"] if sweep else [])]
    clean = True
    for part in parts or PARTS:
        outcome = run_part(PARTS[part], options, jobs, seed, limit)
        show(console, part, outcome, each)
        clean &= outcome.clean
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
