"""Every float through the math functions of one argument: python -m tests.engine.math.exhaustive [name ...]

Prints the largest error of each function over all 2^32 arguments, and fails where it is above the bound of
reference.py. Odd and even functions are compared with the reference for positive arguments, and with themselves for
negative ones. One to five minutes a function.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from tests.engine.math.launch import run
from tests.engine.math.reference import EITHER_ZERO, UNARY, ulp_error

CHUNK = 2**19  # small enough to stay in the cache
ODD = {"sin", "tan", "sinpi", "tanpi", "asin", "atan", "sinh", "tanh", "asinh", "atanh"}
EVEN = {"cos", "cospi", "cosh", "fabs"}
# Outside of these the result is NaN.
DOMAIN = {
    "log": (0, np.inf),
    "log2": (0, np.inf),
    "log10": (0, np.inf),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
}
DOMAIN |= {"acosh": (1, np.inf), "sqrt": (0, np.inf), "rsqrt": (0, np.inf)}


def sweep(name: str, namespace: str, step: int) -> tuple[float, str]:
    """Largest error over every *step*-th float, and where it is."""
    reference, _ = UNARY[name]
    largest, where = 0.0, "nowhere"
    for start in range(0, 2**32, CHUNK * step):
        patterns = np.arange(start, min(start + CHUNK * step, 2**32), step, dtype=np.uint64).astype(np.uint32)
        x = patterns.view(np.float32)
        (got,) = run([f"metal::{namespace}::{name}(x)"], [x])
        if start >= 2**31 and name in ODD | EVEN:
            (mirror,) = run([f"metal::{namespace}::{name}(x)"], [-x])
            same = got.view(np.uint32) == (-mirror if name in ODD else mirror).view(np.uint32)
            same |= np.isnan(got) & np.isnan(mirror)
            if name in EITHER_ZERO:
                same |= (got == 0) & (mirror == 0)
            if not same.all():
                at = int(same.argmin())
                return float("inf"), f"f(-x) does not mirror f(x) at {x[at]!r}: {got[at]!r} and {mirror[at]!r}"
            continue
        low, high = DOMAIN.get(name, (-np.inf, np.inf))
        if not ((x >= low) & (x <= high)).any():
            if not np.isnan(got).all():
                return float("inf"), f"f({x[np.isnan(got).argmin()]!r}) is not NaN"
            continue
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
            unlike = got.view(np.uint32) != exact.astype(np.float32).view(np.uint32)
            differs = np.flatnonzero(unlike & ~(np.isnan(got) & np.isnan(exact)))
        if differs.size == 0:
            continue
        error = ulp_error(got[differs], exact[differs], either_zero=name in EITHER_ZERO)
        at = int(error.argmax())
        if error[at] > largest:
            i = differs[at]
            largest, where = float(error[at]), f"f({x[i]!r}) = {got[i]!r}, exactly {exact[i]!r}"
    return largest, where


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the math functions over all floats.")
    parser.add_argument("names", nargs="*", help="functions; all of them if none is given")
    parser.add_argument("--namespace", default="precise", choices=("precise", "fast"))
    parser.add_argument("--step", type=int, default=1, help="take every n-th float")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(UNARY)
    if unknown:
        parser.error(f"no such function: {', '.join(sorted(unknown))}")
    failed = False
    for name in options.names or UNARY:
        start = time.monotonic()
        error, where = sweep(name, options.namespace, options.step)
        bound = UNARY[name][1]
        good = error <= max(bound, 0.5) or options.namespace == "fast"
        failed |= not good
        verdict = "" if good else f"  ABOVE {bound}"
        print(f"{name:6} {error:9.3f} ulp{verdict}  {where}  [{time.monotonic() - start:.0f} s]", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
