"""What the math functions should give, in float64 by NumPy, and how far a float32 result is from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Reference = Callable[..., Any]


def _sinpi(x: Doubles) -> Doubles:
    t = np.fmod(x, 2.0)
    t = np.where(t > 1, t - 2, np.where(t < -1, t + 2, t))
    t = np.where(t > 0.5, 1 - t, np.where(t < -0.5, -1 - t, t))
    return np.where(t == 0, np.copysign(0.0, x), np.sin(np.pi * t))


def _cospi(x: Doubles) -> Doubles:
    t = np.abs(np.fmod(x, 2.0))
    t = np.where(t > 1, 2 - t, t)
    near_zero = np.sin(np.pi * (0.5 - t))
    return np.where(np.abs(t - 0.5) < 0.25, near_zero, np.cos(np.pi * t))


def _tanpi(x: Doubles) -> Doubles:
    t = x - np.rint(x)
    steep = 1 / np.tan(np.pi * (np.copysign(0.5, t) - t))
    y = np.where(np.abs(t) <= 0.25, np.tan(np.pi * t), np.where(np.abs(t) == 0.5, np.copysign(np.inf, t), steep))
    return np.where(x == 0, x, y)


def _fract(x: Doubles) -> Doubles:
    return np.minimum(x - np.floor(x), np.float64(np.nextafter(np.float32(1), np.float32(0))))


def _powr(x: Doubles, y: Doubles) -> Doubles:
    undefined = (x < 0) | ((y == 0) & ((x == 0) | np.isinf(x))) | (np.isinf(y) & (x == 1)) | np.isnan(x) | np.isnan(y)
    return np.where(undefined, np.nan, np.abs(np.power(x, y)))


def _fdim(x: Doubles, y: Doubles) -> Doubles:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


# One argument: the reference, and the bound in ulp that safe mode keeps over all floats.
UNARY: dict[str, tuple[Reference, float]] = {
    "exp": (np.exp, 1.0),
    "exp2": (np.exp2, 1.0),
    "exp10": (lambda x: np.power(10.0, x), 1.1),
    "log": (np.log, 1.0),
    "log2": (np.log2, 1.0),
    "log10": (np.log10, 1.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
    "tan": (np.tan, 3.1),
    "sinpi": (_sinpi, 1.0),
    "cospi": (_cospi, 1.0),
    "tanpi": (_tanpi, 2.0),
    "asin": (np.arcsin, 2.0),
    "acos": (np.arccos, 2.0),
    "atan": (np.arctan, 2.0),
    "sinh": (np.sinh, 2.0),
    "cosh": (np.cosh, 2.0),
    "tanh": (np.tanh, 2.0),
    "asinh": (np.arcsinh, 2.0),
    "acosh": (np.arccosh, 2.1),
    "atanh": (np.arctanh, 2.5),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "ceil": (np.ceil, 0.0),
    "floor": (np.floor, 0.0),
    "trunc": (np.trunc, 0.0),
    "rint": (np.rint, 0.0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), 0.0),
    "fract": (_fract, 0.5),
    "fabs": (np.abs, 0.0),
}
# Whole numbers of half turns may be either zero.
EITHER_ZERO = {"tanpi"}
# Two arguments.
BINARY: dict[str, tuple[Reference, float]] = {
    "pow": (np.power, 3.0),
    "powr": (_powr, 3.0),
    "atan2": (np.arctan2, 2.0),
    "fmod": (np.fmod, 0.0),
    "divide": (np.divide, 0.5),
    "fdim": (_fdim, 0.5),
    "fmax": (np.fmax, 0.0),
    "fmin": (np.fmin, 0.0),
    "copysign": (np.copysign, 0.0),
}


def ulp_error(got: Floats, exact: Any, *, either_zero: bool = False) -> Doubles:
    """Distance of *got* from *exact* in float32's last places; infinite where a NaN or a zero's sign is wrong."""
    with np.errstate(all="ignore"):
        limit = np.float64(np.finfo(np.float32).max)
        size = np.abs(exact).astype(np.float64)
        exponent = np.clip(np.frexp(size)[1] - 1, -126, 127)
        unit = np.ldexp(1.0, exponent - 23)
        error = np.asarray(np.abs(got.astype(exact.dtype) - exact) / unit, np.float64)
        # Above the largest float, infinity is as good as that float.
        over = size > limit
        error = np.where(over & (np.abs(got) >= limit) & (np.signbit(got) == np.signbit(exact)), 0.0, error)
        error = np.where(np.isinf(got) & ~over & (limit - size < unit), 1.0, error)
        error = np.where(np.isnan(exact) & np.isnan(got), 0.0, error)
        wrong = np.isnan(exact) != np.isnan(got)
        if not either_zero:
            wrong |= (exact == 0) & (got == 0) & (np.signbit(exact) != np.signbit(got))
        return np.where(wrong | np.isnan(error), np.inf, error)


def worst(got: Floats, exact: Any, arguments: tuple[Floats, ...], *, either_zero: bool = False) -> tuple[float, str]:
    """The largest error and where it is."""
    error = ulp_error(got, exact, either_zero=either_zero)
    at = int(error.argmax())
    where = ", ".join(f"{float(a[at])!r} ({a.view(np.uint32)[at]:#010x})" for a in arguments)
    return float(error[at]), f"f({where}) = {float(got[at])!r}, exactly {exact[at]!r}"
