"""metalcore.precise against NumPy in float64 and math.fsum: verified, then timed in turns, as ratios.

    python benchmarks/precise.py

A ratio above 1 means that metalcore is faster. NumPy's float64 is not exact; math.fsum is, of sums.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import metalcore
from metalcore import precise

Call = Callable[[], Any]


def quarter(times: list[float]) -> float:
    """The 25th percentile: other work on the machine only adds time."""
    return sorted(times)[len(times) // 4]


def in_turns(calls: Sequence[Call], seconds: float) -> list[float]:
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for call, taken in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return [quarter(t) for t in times]


def exact_dot(x: Any, y: Any) -> Fraction:
    return sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)), Fraction(0))


def verify_dot(x: Any, y: Any) -> None:
    """The first thousand terms, exactly."""
    x, y = x[:1000], y[:1000]
    truth, size = exact_dot(x, y), exact_dot(np.abs(x), np.abs(y))
    high, low = precise.dot(x, y, pair=True)
    if abs(Fraction(float(high)) + Fraction(float(low)) - truth) > len(x) * size / (1 << 46):
        raise SystemExit("float-float dot: the error is above its bound")
    high, low = precise.dot(x, y, precision="exact", pair=True)
    if abs(Fraction(float(high)) - truth) > Fraction(float(np.spacing(np.abs(high)))) / 2:
        raise SystemExit("exact dot: not the nearest float")


def rows(seconds: float) -> Iterator[tuple[str, str, float, str, float]]:
    """Label, precision, seconds of metalcore, what it is compared with, ratio."""
    random = np.random.default_rng(0)
    for n in (1000, 100_000, 1_000_000):
        x, y = (random.standard_normal(n).astype(np.float32) for _ in range(2))
        wide = x.astype(np.float64), y.astype(np.float64)
        verify_dot(x, y)
        if float(precise.sum(x, precision="exact")) != float(np.float32(math.fsum(x))):
            raise SystemExit("exact sum: not that of math.fsum")
        for precision in ("float32", "float-float", "exact"):
            calls = [partial(precise.dot, x, y, precision=precision), partial(np.dot, *wide)]
            ours, theirs = in_turns(calls, seconds)
            yield f"dot of {n:,}", precision, ours, "float64 dot", theirs / ours
        ours, theirs = in_turns([partial(precise.sum, x, precision="exact"), partial(math.fsum, x)], seconds)
        yield f"sum of {n:,}", "exact", ours, "math.fsum", theirs / ours
    for n in (64, 256, 512):
        a, b = (random.standard_normal((n, n)).astype(np.float32) for _ in range(2))
        wide = a.astype(np.float64), b.astype(np.float64)
        for precision in ("float32", "float-float", "exact"):
            found = precise.matmul(a, b, precision=precision)
            limit = np.abs(wide[0]) @ np.abs(wide[1]) * (2.0**-24 if precision != "float32" else n * 2.0**-24)
            if (np.abs(found - wide[0] @ wide[1]) > limit).any():
                raise SystemExit(f"{precision} matmul of {n}: wrong")
            calls = [partial(precise.matmul, a, b, precision=precision), partial(np.matmul, *wide)]
            ours, theirs = in_turns(calls, seconds)
            yield f"matmul {n}", precision, ours, "float64 matmul", theirs / ours


@click.command()
@click.option("--seconds", default=0.3, show_default=True, help="For each row.")
@click.option("--threads", default=2, show_default=True)
def main(seconds: float, threads: int) -> None:
    metalcore.set_num_threads(threads)
    table = Table("what", "precision", "microseconds", "against", "ratio")
    for what, precision, ours, against, ratio in rows(seconds):
        table.add_row(what, precision, f"{ours * 1e6:.0f}", against, f"{ratio:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
