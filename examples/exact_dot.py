"""A dot product whose terms cancel, in float32, in float-float and without error.

    python examples/exact_dot.py --width 1000

Conditions say how much larger the terms are than their sum: float32 has 7 digits, float-float 14, exact has them all.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from metalcore import precise


def cancelling(width: int, condition: float, seed: int = 0) -> tuple[Any, Any]:
    """Terms of up to the size of `condition` in pairs that cancel, and a few that stay, in random order."""
    random = np.random.default_rng(seed)
    pairs = width // 2 - 2
    sizes = np.sqrt(condition) ** random.uniform(0, 1, (2, pairs))
    a, b = ((random.uniform(1, 2, pairs) * s).astype(np.float32) for s in sizes)
    rest = random.standard_normal((2, width - 2 * pairs)).astype(np.float32)
    order = random.permutation(width)
    return np.concatenate([a, -a, rest[0]])[order], np.concatenate([b, b, rest[1]])[order]


@click.command()
@click.option("--width", default=1000, show_default=True, help="Terms of each dot product, 8 or more.")
def main(width: int) -> None:
    """Print the three results and their errors for growing conditions."""
    table = Table("condition", "float32", "float-float", "exact", "the exact sum")
    for condition in (1e2, 1e6, 1e10, 1e14, 1e18):
        x, y = cancelling(width, condition)
        truth = sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)), Fraction(0))
        row = [f"{condition:.0e}"]
        for precision in ("float32", "float-float", "exact"):
            found = float(precise.dot(x, y, precision=precision))
            error = abs(Fraction(found) - truth) / abs(truth)
            row.append(f"{found:.8g} (error {float(error):.0e})")
        table.add_row(*row, f"{float(truth):.15g}")
    Console(width=140).print(table)
    high, low = precise.dot(x, y, precision="exact", pair=True)
    Console().print(f"as a pair: {float(high)!r} + {float(low)!r}")


if __name__ == "__main__":
    main()
