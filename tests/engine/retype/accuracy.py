"""Largest error of each math function where float is read as double, in ulps: `python -m tests.engine.retype.accuracy`.

The references are mpmath's, which torch brings. Exit status 1 where an error is above the limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import mpmath
import numpy as np

from tests.engine.retype.helpers import Array, evaluate

LIMIT = 4.0  # ulps, where 1e-14 is 45
RNG = np.random.default_rng(7)
COUNT = 256


def uniform(low: float, high: float) -> Array:
    """Even between the limits, and a quarter of tiny numbers."""
    x = RNG.uniform(low, high, COUNT)
    x[: COUNT // 4] *= np.exp2(RNG.uniform(-60, 0, COUNT // 4))
    return x


def sizes(low: float, high: float, signs: tuple[float, ...] = (-1.0, 1.0)) -> Array:
    return np.exp2(RNG.uniform(low, high, COUNT)) * RNG.choice(signs, COUNT)


def positive() -> Array:
    x = sizes(-1074, 1023, (1.0,))
    x[: COUNT // 2] = 1 + RNG.standard_normal(COUNT // 2) * 0.1
    return x


def angles() -> Array:
    return np.concatenate([uniform(-10, 10), sizes(0, 45), sizes(44, 1023)])


CASES: dict[str, tuple[Array, Callable[[Any], Any]]] = {
    "exp": (uniform(-740, 709), mpmath.exp),
    "exp2": (uniform(-1070, 1023), lambda v: mpmath.mpf(2) ** v),
    "exp10": (uniform(-307, 308), lambda v: mpmath.mpf(10) ** v),
    "log": (positive(), mpmath.log),
    "log2": (positive(), lambda v: mpmath.log(v) / mpmath.log(2)),
    "log10": (positive(), lambda v: mpmath.log(v) / mpmath.log(10)),
    "sqrt": (positive(), mpmath.sqrt),
    "rsqrt": (positive(), lambda v: 1 / mpmath.sqrt(v)),
    "sin": (angles(), mpmath.sin),
    "cos": (angles(), mpmath.cos),
    "tan": (angles(), mpmath.tan),
    "sinpi": (uniform(-100, 100), mpmath.sinpi),
    "cospi": (uniform(-100, 100), mpmath.cospi),
    "tanpi": (uniform(-100, 100), lambda v: mpmath.sinpi(v) / mpmath.cospi(v)),
    "asin": (uniform(-1, 1), mpmath.asin),
    "acos": (uniform(-1, 1), mpmath.acos),
    "atan": (sizes(-200, 200), mpmath.atan),
    "sinh": (uniform(-709, 709), mpmath.sinh),
    "cosh": (uniform(-709, 709), mpmath.cosh),
    "tanh": (uniform(-30, 30), mpmath.tanh),
    "asinh": (sizes(-200, 200), mpmath.asinh),
    "acosh": (1 + sizes(-52, 200, (1.0,)), mpmath.acosh),
    "atanh": (uniform(-1, 1), mpmath.atanh),
}


def largest_error(name: str) -> tuple[float, float]:
    """The error in ulps, and the argument that has it."""
    x, reference = CASES[name]
    worst, at = 0.0, 0.0
    with mpmath.workprec(1300):
        for value, result in zip(x.tolist(), evaluate([f"{name}(a)"], x)[0].tolist(), strict=True):
            right = reference(mpmath.mpf(value))
            error = abs(mpmath.mpf(result) - right) / mpmath.mpf(float(np.spacing(abs(float(right)))))
            if not error <= worst:
                worst, at = float(error), value
    return worst, at


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(CASES)))
def main(names: tuple[str, ...]) -> None:
    """Prints the largest error of each function."""
    errors = {}
    for name in names or CASES:
        errors[name], at = largest_error(name)
        print(f"{name:6} {errors[name]:6.3f} ulp at {at!r}")
    sys.exit(any(not error <= LIMIT for error in errors.values()))


if __name__ == "__main__":
    main()
