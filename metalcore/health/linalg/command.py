"""`metalcore health --linalg`: the accuracy suite of linear algebra, on several processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from metalcore.errors import ArgumentError
from metalcore.health.command import Asked, conclude
from metalcore.health.linalg import suite
from metalcore.health.linalg.graded import SCALED
from metalcore.health.linalg.matrices import KINDS, SYMMETRIC
from metalcore.health.linalg.trials import TRIALS
from metalcore.health.page import LINALG
from metalcore.health.verify import Outcome

_PIECES = ((0, 33), (34, 128), (129, 1 << 30))  # sizes that one process runs together
_ROUTE = "numpy"


@dataclass(frozen=True)
class Group:
    """A trial at some sizes: one piece of work. No sizes: the long and the flat ones."""

    name: str
    sizes: tuple[int, ...]
    route: str
    seed: int

    def run(self) -> list[Outcome]:
        long = not self.sizes
        return list(suite.run(self.name, self.sizes, suite.BATCHES, self.route, self.seed, long))

    def failed(self, problem: str) -> Outcome:
        return Outcome(f"linalg.{self.name}", "float32", self.route, -1, "- the process", (), 0.0, problem)


def health_of_linalg(asked: Asked, sizes: Sequence[int] = ()) -> bool:
    """Run everything that is asked for; true where all is green."""
    if asked.cases is not None or any(dtype != "float32" for dtype in asked.dtypes):
        raise ArgumentError("health --linalg runs all cases, in float32: leave --cases and --dtype out")
    used = suite.SEED if asked.seed is None else asked.seed
    work = groups(asked.ops, sizes, asked.routes or (_ROUTE,), used)
    console = Console() if sys.stdout.isatty() else Console(width=150)
    outcomes = asked.run(work, lambda group: f"{group.name} {max(group.sizes, default='long')}")
    outcomes.sort(key=lambda o: (o.noun, o.route, o.index, o.label))
    console.print(_table(outcomes))
    if suite.missing():
        console.print(f"not there: {', '.join(suite.missing())}", style="yellow")
    return conclude(console, outcomes, used, asked.files, LINALG)


def families() -> dict[str, str]:
    """Each trial's family."""
    return {name: TRIALS[name].family if name in TRIALS else "svd" for name in (*TRIALS, *SCALED)}


def groups(chosen: Sequence[str], sizes: Sequence[int], routes: Sequence[str], seed: int) -> list[Group]:
    """The pieces of work, the large sizes first."""
    family = families()
    for name in chosen:
        if name not in (*family, *family.values()):
            known = ", ".join(dict.fromkeys((*family.values(), *family)))
            raise ArgumentError(f"there is nothing named {name!r} in linear algebra; there are {known}")
    for route in routes:
        if route not in suite.ROUTES:
            raise ArgumentError(f"there is no route {route!r}; there are {', '.join(suite.ROUTES)}")
    names = [n for n in suite.names() if not chosen or n in chosen or family[n] in chosen]
    found = []
    for low, high in reversed(_PIECES):
        piece = tuple(n for n in sizes or suite.SIZES if low <= n <= high)
        found += [Group(name, piece, route, seed) for name in names for route in routes if piece]
    if not sizes:
        found += [Group(name, (), route, seed) for name in names for route in routes]
    return found


def worst_ratios(outcomes: Sequence[Outcome]) -> tuple[list[str], dict[str, dict[str, float]]]:
    """Families in their order, and for each kind of matrix the worst ratio of each family. What has another limit than
    LAPACK's (scaled matrices: a relative error) is shown as that."""
    family = families()
    columns = [f for f in dict.fromkeys(family.values()) if any(family[_name(o)] == f for o in outcomes)]
    table: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        row = table.setdefault(suite.kind_of(outcome), {})
        column = family[_name(outcome)]
        found = [float("inf")] if outcome.problem else [m.error for m in outcome.measures]
        row[column] = max([row.get(column, 0.0), *found])
    order = {kind: i for i, kind in enumerate((*KINDS, *SYMMETRIC))}
    return columns, dict(sorted(table.items(), key=lambda item: order.get(item[0], len(order))))


def _name(outcome: Outcome) -> str:
    return outcome.noun.removeprefix("linalg.")


def _table(outcomes: Sequence[Outcome]) -> Table:
    columns, found = worst_ratios(outcomes)
    table = Table("kind of matrix", box=None, title="the worst ratio of each family (residuals and orthogonality)")
    for column in columns:
        table.add_column(column, justify="right")
    failed = {(suite.kind_of(o), families()[_name(o)]) for o in outcomes if not o.passed}
    for kind, row in found.items():
        cells = [f"{row[c]:.3g}" if c in row else "" for c in columns]
        cells = [f"[red]{v}[/red]" if (kind, c) in failed else v for v, c in zip(cells, columns, strict=True)]
        table.add_row(kind, *cells)
    return table
