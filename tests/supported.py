"""Makes docs/supported.md from the tests marked `feature`: `python -m tests.supported` runs them and writes the table.

`--check` only collects the tests and tells whether the table names the same features; a test does that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "supported.md"
TITLES = {
    "language": "The language",
    "lockstep": "Lockstep: 32 threads at once",
    "types": "Types",
    "math": "Math",
    "simdgroup": "Simdgroups, quadgroups and matrices",
    "atomics": "Atomics",
    "threadgroup memory": "Threadgroup memory and barriers",
    "debugging": "Debugging",
    "API": "The Python API",
    "corpus": "Kernels that others wrote",
    "rejected": "Refused, as Metal refuses it",
    "not yet": "Not yet: refused with an error that names it",
}
# What C++ leaves undefined and a kernel may meet; each has a test in tests/engine/language/test_undefined.py.
LANGUAGE = """
## Where C++ defines no result

- A shift by the width of its type or more takes the low bits of the count, in every mode, scalars (after promotion to
  int) and elements of vectors (by their own width). That is OpenCL's rule, which public kernels that run on Apple GPUs
  rely on; Apple's own text was not at hand. In a constant expression it is an error, as C++ has it.
- x / 0 is 0, x % 0 is x, INT_MIN / -1 is INT_MIN. A float that an integer of 32 or 64 bits cannot hold becomes the
  nearest that it can, a NaN 0; narrower integers take the low bits of that. Signed sums and products wrap in sanitize
  mode; in the others LLVM may assume that they do not, for numbers, never for what memory is reached.
- A function that ends without its `return` returns zeros; a private variable without a value is one fixed number; a
  `bool` in memory is true where its byte is not 0; a loop without an end does not end.
- An access through null, a number or past an array, known to the compiler or not, is a `KernelFault` in checked mode
  and a finding in sanitize mode. A store to a private array that nobody reads is no access.
"""
# Limits of the op library; each raises an error that names it, and has a test beside its op's.
LIBRARY = """
## The op library: what it refuses

- Dtypes other than float32, float16 and bfloat16; float64 works on a CPU alone. No complex or sparse tensors.
- A gradient of a gradient, forward-mode gradients (`torch.func.jvp`, `mx.jvp`), gradients of quantized weights' scales.
- `embedding_bag`: `max_norm`, `sparse=True`. `scatter_add`: an index that is smaller than the input in more than two
  places on one side of `dim`. `quantize_int4`: an odd number of columns or an odd group size.
- Inside `mx.compile` and `mx.vmap` without Metal: the engine needs values. Optimizers for MLX: use MLX's own.
- Optimizers: sparse gradients, `capturable`, `differentiable`.
- `metalcore.linalg`: complex matrices, `out=`, a tensor of tolerances (`pinv` and `matrix_rank` take numbers), drivers
  other than `gesvd` and `gesvdj` for `svd`. Arrays of two frameworks in one call.
- `metalcore.precise`: `"exact"` for float64, for `cholesky` and for `qr`; a pair of an exact `norm`.
- Overrides: methods of `torch.Tensor`, aliases such as `torch.softmax`, calls inside `torch.compile` and autocast run
  torch's own.
- On an Apple GPU an index out of range is not an error unless `METALCORE_CHECK_GPU=1` is set; nothing has run on a
  device yet.
"""
Feature = tuple[str, str]


@dataclass
class Row:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def state(self) -> str:
        if self.failed:
            return "fails"
        return "yes" if self.passed else "not tested here"


@dataclass(eq=False)  # pytest wants plugins to be hashable
class Collector:
    """A pytest plugin that notes which tests back which feature, and how they end."""

    rows: dict[Feature, Row] = field(default_factory=dict)
    tests: dict[Feature, list[str]] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for marker in item.iter_markers("feature"):
                self.rows.setdefault((marker.args[0], marker.args[1]), Row())
                self.tests.setdefault((marker.args[0], marker.args[1]), []).append(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        final = report.when == "call" or (report.when == "setup" and report.outcome != "passed")
        for name, value in report.user_properties:
            if name == "feature" and final:
                assert isinstance(value, (tuple, list))
                row = self.rows.setdefault((value[0], value[1]), Row())
                row.passed += report.outcome == "passed"
                row.failed += report.outcome == "failed"
                row.skipped += report.outcome == "skipped"


def run(*options: str, tests: Sequence[str] = ("tests",)) -> Collector:
    collector = Collector()
    places = [str(ROOT / test) for test in tests]
    chosen = "feature and not sweep"  # also what the usual run leaves out because there are many alike
    code = pytest.main(["-m", chosen, "-q", "--no-header", *options, *places], plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"the tests did not run: pytest ended with {code}")
    return collector


def page(rows: dict[Feature, Row]) -> str:
    supported = [f for f in rows if f[0] != "not yet"]
    failing = [f for f in supported if rows[f].state != "yes"]
    lines = [
        "# What is supported",
        "",
        "Made by `python -m tests.supported` from the tests; do not edit. Each row is backed by tests that run tiny",
        "kernels and compare exact values, or compile what must be refused.",
        "",
        f"{len(supported)} features, {len(supported) - len(failing)} pass"
        + (f", {len(failing)} do not." if failing else "."),
    ]
    for area, title in TITLES.items():
        mine = sorted(name for a, name in rows if a == area)
        if not mine:
            continue
        lines += ["", f"## {title}", "", "| feature | works | tests |", "|---|---|--:|"]
        for name in mine:
            row = rows[area, name]
            state = "not yet" if area == "not yet" and row.state == "yes" else row.state
            lines.append(f"| {escaped(name)} | {state} | {row.passed + row.failed} |")
    return "\n".join(lines) + LANGUAGE + LIBRARY


def escaped(name: str) -> str:
    return name.replace("|", "\\|").replace("<", "&lt;")


def listed(text: str) -> dict[tuple[str, str], Row]:
    """The features that a page names, by title and name."""
    found = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| ") and not line.startswith("| feature |"):
            name, state, count = line[2:].rstrip(" |").rsplit(" | ", 2)
            good = state in ("yes", "not yet")
            found[title, name] = Row(passed=int(count) if good else 0, failed=0 if good else int(count))
    return found


@click.command()
@click.option("--check", is_flag=True, help="Only tell whether the table names the features of the tests.")
@click.option("--update", is_flag=True, help="Run only the tests of features that the table does not show as working.")
@click.option("-n", "processes", default="", help="Spread the tests over so many processes.")
def main(check: bool, update: bool, processes: str) -> None:
    """Writes docs/supported.md."""
    options = ["-n", processes] if processes else []
    have = listed(PAGE.read_text()) if PAGE.exists() else {}
    if check or update:
        known = run("--collect-only", "-qq").tests
        if check:
            return compare({(TITLES[area], escaped(name)) for area, name in known}, set(have))
        rows = {f: have.get((TITLES[f[0]], escaped(f[1])), Row()) for f in known}
        again = sorted({test for f, row in rows.items() if row.state != "yes" for test in known[f]})
        if again:
            done = run(*options, tests=again).rows
            rows.update({f: row for f, row in done.items() if rows[f].state != "yes"})
    else:
        rows = run(*options).rows
    PAGE.write_text(page(rows))
    bad = [f"{area}: {name}" for (area, name), row in sorted(rows.items()) if row.state != "yes"]
    print(f"{len(rows)} features" + (f", not passing: {bad}" if bad else ", all pass"))
    sys.exit(1 if bad else 0)


def compare(wanted: set[tuple[str, str]], have: set[tuple[str, str]]) -> None:
    for title, name in sorted(wanted - have):
        print(f"missing in {PAGE.name}: {title}: {name}")
    for title, name in sorted(have - wanted):
        print(f"no test any more: {title}: {name}")
    if wanted != have:
        raise SystemExit("docs/supported.md is old: run python -m tests.supported --update")


if __name__ == "__main__":
    main()
