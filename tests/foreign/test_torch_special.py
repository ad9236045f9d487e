"""Special functions of PyTorch's Metal headers against PyTorch's own in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.foreign.arrays import DTYPES, EPSILON, Array, generator, swept
from tests.foreign.corpus import library

S = torch.special
Function = Callable[..., torch.Tensor]


def short_expm1(x: torch.Tensor) -> torch.Tensor:
    """What expm1f.h computes: it takes away only the upper half of log(2), 12 units of the last place a doubling."""
    turns = torch.round(x / math.log(2))
    return torch.ldexp(torch.exp(x - turns * 6.93145752e-1), turns) - 1


# function -> reference, lowest and highest argument, error in units of the result's last place, and of 1
UNARY: dict[str, tuple[Function, float, float, float]] = {
    "erf": (torch.erf, -4, 4, 16),
    "erfc": (torch.erfc, -3, 3, 64),
    "erfinv": (torch.erfinv, -0.999, 0.999, 64),
    "i0": (torch.i0, -8, 8, 32),
    "i0e": (S.i0e, -20, 20, 32),
    "i1": (S.i1, -8, 8, 32),
    "i1e": (S.i1e, -20, 20, 32),
    "gamma": (lambda x: torch.exp(torch.lgamma(x)), 0.1, 20, 256),
    "log_gamma": (torch.lgamma, 0.1, 40, 64),
    "digamma": (torch.digamma, 0.1, 40, 64),
    "trigamma": (lambda x: torch.polygamma(1, x), 0.1, 20, 64),
    "sinc": (torch.sinc, -5, 5, 64),
    "spherical_bessel_j0": (S.spherical_bessel_j0, -10, 10, 64),
    "entr": (S.entr, 0, 5, 32),
    "bessel_j0_forward": (S.bessel_j0, -20, 20, 64),
    "bessel_j1_forward": (S.bessel_j1, -20, 20, 64),
    "bessel_y0_forward": (S.bessel_y0, 0.2, 20, 64),
    "bessel_y1_forward": (S.bessel_y1, 0.2, 20, 64),
    "modified_bessel_i0_forward": (S.modified_bessel_i0, -8, 8, 32),
    "modified_bessel_i1_forward": (S.modified_bessel_i1, -8, 8, 32),
    "modified_bessel_k0_forward": (S.modified_bessel_k0, 0.1, 10, 64),
    "modified_bessel_k1_forward": (S.modified_bessel_k1, 0.1, 10, 64),
    "scaled_modified_bessel_k0_forward": (S.scaled_modified_bessel_k0, 0.1, 10, 64),
    "scaled_modified_bessel_k1_forward": (S.scaled_modified_bessel_k1, 0.1, 10, 64),
    "erfcx": (S.erfcx, -3, 20, 64),
    "expm1f": (short_expm1, -5, 5, 16),
}
MSL = {"float32": "float", "float16": "half", "bfloat16": "bfloat"}


def check(got: Array, want: torch.Tensor, units: float, kind: str = "float32") -> None:
    """Within *units* of the last place of the result, or of 1 where it is smaller (near a root)."""
    reference = want.numpy()
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(got[~finite], reference[~finite])
    got, reference = got[finite], reference[finite]
    bad = ~(np.abs(got - reference) <= units * EPSILON[kind] * np.maximum(1, np.abs(reference)))
    at = int(np.argmax(bad))
    assert not bad.any(), f"{int(bad.sum())} of {bad.size} differ; first: got {got[at]}, want {reference[at]}"


@pytest.mark.feature("corpus", "PyTorch: special_math.h")
@pytest.mark.parametrize("name", swept(UNARY, ("erfinv", "i0e", "log_gamma", "digamma", "bessel_j0_forward")))
def test_special_function(name: str) -> None:
    reference, low, high, units = UNARY[name]
    kernel = library("torch", "special").function(f"{name}_float")
    for size in (512, 301):
        x = np.linspace(low, high, size).astype(np.float32)
        out = np.zeros_like(x)
        kernel(x, out, threads=size, group_size=64)
        check(out, reference(torch.from_numpy(x).double()), units)


@pytest.mark.feature("corpus", "PyTorch: special_math.h")
@pytest.mark.parametrize("kind", ("float16", "bfloat16"))
@pytest.mark.parametrize("name", swept([n for n in UNARY if n not in ("erfcx", "expm1f", "trigamma")], ("erf",)))
def test_special_function_of_a_short_type(name: str, kind: str) -> None:
    """Arguments of 16 bits; most results are floats, some are of the argument's type."""
    reference, low, high, units = UNARY[name]
    x = np.linspace(low, high, 257).astype(DTYPES[kind])
    out = np.zeros(257, np.float32)
    library("torch", "special").function(f"{name}_{MSL[kind]}")(x, out, threads=257, group_size=64)
    want = reference(torch.from_numpy(x.astype(np.float64)))
    check(out, want, units if name == "erf" else 64, "float32" if name == "erf" else kind)


BINARY: dict[str, tuple[Function, tuple[float, float], tuple[float, float]]] = {
    "logaddexp": (torch.logaddexp, (-5, 5), (-5, 5)),
    "logaddexp2": (torch.logaddexp2, (-5, 5), (-5, 5)),
    "xlogy": (torch.xlogy, (0, 5), (0.1, 5)),
    "xlog1py": (S.xlog1py, (0, 5), (-0.9, 5)),
    "zeta": (S.zeta, (1.5, 8), (0.5, 8)),
    "igamma": (S.gammainc, (0.2, 30), (0, 40)),
    "igammac": (S.gammaincc, (0.2, 30), (0, 40)),
}


@pytest.mark.feature("corpus", "PyTorch: igamma.h")
@pytest.mark.parametrize("name", swept(BINARY, ("igamma", "zeta")))
def test_function_of_two_numbers(name: str) -> None:
    reference, first, second = BINARY[name]
    kernel = library("torch", "special").function(name)
    for size in (256, 171):
        rng = generator(name, size)
        a, b = (rng.uniform(*bounds, size).astype(np.float32) for bounds in (first, second))
        out = np.zeros_like(a)
        kernel(a, b, out, threads=size, group_size=64)
        check(out, reference(torch.from_numpy(a).double(), torch.from_numpy(b).double()), 256)


POLYNOMIALS = {
    "chebyshev_polynomial_t": S.chebyshev_polynomial_t,
    "chebyshev_polynomial_u": S.chebyshev_polynomial_u,
    "chebyshev_polynomial_v": S.chebyshev_polynomial_v,
    "chebyshev_polynomial_w": S.chebyshev_polynomial_w,
    "shifted_chebyshev_polynomial_t": S.shifted_chebyshev_polynomial_t,
    "shifted_chebyshev_polynomial_u": S.shifted_chebyshev_polynomial_u,
    "shifted_chebyshev_polynomial_v": S.shifted_chebyshev_polynomial_v,
    "shifted_chebyshev_polynomial_w": S.shifted_chebyshev_polynomial_w,
    "hermite_polynomial_h": S.hermite_polynomial_h,
    "hermite_polynomial_he": S.hermite_polynomial_he,
}


@pytest.mark.feature("corpus", "PyTorch: special_math.h")
@pytest.mark.parametrize("name", swept(POLYNOMIALS, ("hermite_polynomial_he",)))
def test_polynomial(name: str) -> None:
    kernel = library("torch", "special").function(f"{name}_forward")
    for size, degree in ((128, 3), (77, 5)):
        x = np.linspace(0.05, 0.95, size).astype(np.float32)
        out = np.zeros_like(x)
        kernel(x, np.int64(degree), out, threads=size, group_size=64)
        want = POLYNOMIALS[name](torch.from_numpy(x).double(), degree)
        check(out, want, 64 * math.factorial(degree))


@pytest.mark.feature("corpus", "PyTorch: special_math.h")
@pytest.mark.sweep
@pytest.mark.parametrize("order", (1, 2, 3))
def test_polygamma(order: int) -> None:
    x = np.linspace(0.5, 20, 199).astype(np.float32)
    out = np.zeros_like(x)
    library("torch", "special").function("polygamma")(x, np.int64(order), out, threads=199, group_size=64)
    check(out, torch.polygamma(order, torch.from_numpy(x).double()), 256)
