"""What benchmarks/linalg.py measures: each row makes its inputs, checks its result by LAPACK's ratios and names its
peers. The functions of the library are looked up when a row is made, so that one that is not there is shown as missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from metalcore.health.linalg import ratios
from metalcore.health.linalg.ratios import EIGH_LIMIT, LINEAR_LIMIT, SVD_LIMIT, Ratios
from metalcore.ops import functions

Call = Callable[[], Any]


@dataclass
class Setup:
    """The inputs of a row in place: what is timed, and the ratios of our result."""

    ours: Call
    peer: Call  # torch's
    check: Callable[[Any], Ratios]
    limit: float
    numpy: Call | None = None
    inputs: tuple[Any, ...] = ()
    figures: Callable[[Any], dict[str, float]] = field(default=lambda result: {})
    """Numbers beside the time, for example a residual over that of the peer."""

    def verify(self) -> tuple[float, dict[str, float]]:
        """The worst ratio; too large a one is an error."""
        result = self.ours()
        found = self.check(result)
        wrong = {name: value for name, value in found.items() if not value <= self.limit}
        if wrong:
            raise AssertionError(f"ratios {wrong}, allowed is {self.limit:g}")
        return max(found.values()), self.figures(result)


@dataclass(frozen=True)
class Row:
    function: str
    size: str
    make: Callable[[], Setup]
    target: float | None  # least speed against torch; None: shown only
    part: str = "linalg"
    note: str = ""
    figure_targets: tuple[tuple[str, float], ...] = ()  # at most so much

    @property
    def key(self) -> str:
        return " ".join(filter(None, (self.function, self.size, self.note)))

    @property
    def is_there(self) -> bool:
        return self.function in functions(self.part)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def _positive(*shape: int) -> torch.Tensor:
    half = _random(*shape)
    return half @ half.mT / shape[-1] + torch.eye(shape[-1])


def _f(name: str) -> Any:
    return functions("linalg")[name]


def _of_one(
    name: str, A: torch.Tensor, check: Callable[[Any], Ratios], limit: float = LINEAR_LIMIT, **options: Any
) -> Setup:
    """A function of one matrix that torch and NumPy have by the same name."""
    theirs, numpy = getattr(torch.linalg, name), getattr(np.linalg, name)
    calls = [partial(call, a, **options) for call, a in ((_f(name), A), (theirs, A), (numpy, A.numpy()))]
    return Setup(calls[0], calls[1], check, limit, calls[2], (A,))


def _svd(*shape: int) -> Setup:
    A = _random(*shape)
    return _of_one("svd", A, lambda found: ratios.svd(A, *found), SVD_LIMIT, full_matrices=False)


def _eigh(*shape: int) -> Setup:
    half = _random(*shape)
    A = (half + half.mT) / 2
    return _of_one("eigh", A, lambda found: ratios.eigh(A, *found), EIGH_LIMIT)


def _qr(*shape: int) -> Setup:
    A = _random(*shape)
    return _of_one("qr", A, lambda found: ratios.qr(A, *found))


def _cholesky(*shape: int) -> Setup:
    A = _positive(*shape)
    return _of_one("cholesky", A, lambda found: ratios.cholesky(A, found))


def _lu_factor(*shape: int) -> Setup:
    A, ours = _random(*shape), _f("lu_factor")

    def check(found: Any) -> Ratios:
        return ratios.lu(A, *torch.lu_unpack(*found))

    return Setup(lambda: ours(A), lambda: torch.linalg.lu_factor(A), check, LINEAR_LIMIT, None, (A,))


def _lu(*shape: int) -> Setup:
    A, ours = _random(*shape), _f("lu")
    return Setup(
        lambda: ours(A), lambda: torch.linalg.lu(A), lambda found: ratios.lu(A, *found), LINEAR_LIMIT, None, (A,)
    )


def _solve(*shape: int) -> Setup:
    A, B, ours = _random(*shape), _random(*shape[:-1], 4), _f("solve")
    return Setup(
        lambda: ours(A, B), lambda: torch.linalg.solve(A, B), lambda found: ratios.solve(A, found, B), LINEAR_LIMIT,
        partial(np.linalg.solve, A.numpy(), B.numpy()), (A, B),
    )  # fmt: skip


def _inv(*shape: int) -> Setup:
    A = _random(*shape)
    return _of_one("inv", A, lambda found: ratios.inverse(A, found))


def _matmul(n: int) -> Setup:
    A, B, ours = _random(n, n), _random(n, n), _f("matmul")

    def check(found: Any) -> Ratios:
        a, b = ratios.doubles(A), ratios.doubles(B)
        unit = n * ratios.ROUNDING
        return {"error": ratios.worst(np.abs(a @ b - ratios.doubles(found)), np.abs(a) @ np.abs(b), unit)}

    return Setup(
        lambda: ours(A, B), lambda: torch.matmul(A, B), check, LINEAR_LIMIT, partial(np.matmul, A.numpy(), B.numpy()),
        (A, B),
    )  # fmt: skip


def decaying(rows: int, columns: int) -> torch.Tensor:
    """The singular values are 1 / i."""
    left, right = torch.linalg.qr(_random(rows, columns))[0], torch.linalg.qr(_random(columns, columns))[0]
    made: torch.Tensor = (left / torch.arange(1.0, columns + 1)) @ right.mT
    return made


def _topk(against: str, rows: int = 4096, columns: int = 1024, k: int = 32, niter: int = 2) -> Setup:
    A, ours = decaying(rows, columns), _f("topk_svd")
    if against == "svd":
        peer: Call = partial(torch.linalg.svd, A, full_matrices=False)
    else:
        peer = partial(torch.svd_lowrank, A, q=k, niter=niter)

    def residual(U: Any, S: Any, V: Any) -> float:
        V = V if V.shape[-1] == k else V.mT
        return float(torch.linalg.norm(A.double() - (U.double() * S.double()) @ V.double().mT))

    def figures(found: Any) -> dict[str, float]:
        torch.manual_seed(1)
        theirs = torch.svd_lowrank(A, q=k, niter=niter)
        return {"residual over svd_lowrank's": residual(*found) / residual(*theirs)}

    def check(found: Any) -> Ratios:
        U, _, V = found
        return {name: value for M in (U, V) for name, value in ratios.orthogonality(M).items()}

    return Setup(lambda: ours(A, k, niter=niter), peer, check, SVD_LIMIT, None, (A,), figures)


def _precise(name: str, precision: str, count: int = 1 << 20) -> Setup:
    """Against torch in float64, which is what one would use for such digits on a CPU."""
    ours, x, y = functions("precise")[name], _random(count), _random(2, count)[1]
    given = (x, y) if name == "dot" else (x,)
    wide = [t.double() for t in given]
    unit = {"float32": 2.0**-24, "float-float": 2.0**-46, "exact": 2.0**-53}[precision]

    def check(found: Any) -> Ratios:
        """The error of the result that is not due to its own rounding, over n times the unit."""
        terms = wide[0] * wide[1] if name == "dot" else wide[0]
        exact = math.fsum(terms.tolist())
        away = max(abs(float(found) - exact) - ratios.ROUNDING * abs(exact), 0.0)
        return {"error": away / (float(terms.abs().sum()) * count * unit)}

    peer = torch.dot if name == "dot" else torch.sum
    return Setup(
        lambda: ours(*given, precision=precision), lambda: peer(*(t.double() for t in given)), check, 1.0, None, given
    )


BATCH = 1000
SMALL = (4, 8, 16, 32)
LARGE = (512, 1024)
_BATCHED: tuple[tuple[str, Callable[..., Setup], float | None], ...] = (
    ("svd", _svd, 3.0),
    ("eigh", _eigh, 3.0),
    ("qr", _qr, 2.0),
    ("cholesky", _cholesky, 1.0),
    ("lu", _lu, None),
    ("lu_factor", _lu_factor, 1.0),
    ("solve", _solve, 1.0),
    ("inv", _inv, 1.0),
)
_SINGLE: tuple[tuple[str, Callable[..., Setup], float | None], ...] = (
    ("qr", _qr, 0.2),
    ("cholesky", _cholesky, 0.2),
    ("lu_factor", _lu_factor, 0.2),
    ("solve", _solve, 0.2),
    ("inv", _inv, None),
    ("eigh", _eigh, None),
    ("svd", _svd, None),
)


def rows() -> Iterator[Row]:
    for name, make, target in _BATCHED:
        for n in SMALL:
            yield Row(name, f"{BATCH} x {n} x {n}", partial(make, BATCH, n, n), target)
    yield Row("qr", "100000 x 16", partial(_qr, 100_000, 16), 1.0)
    yield Row("qr", "1000000 x 8", partial(_qr, 1_000_000, 8), 1.0)
    for name, make, target in _SINGLE:
        for n in LARGE[: 1 if target is None else 2]:
            yield Row(name, f"{n} x {n}", partial(make, n, n), target)
    yield Row("matmul", "1024 x 1024 x 1024", partial(_matmul, 1024), 0.3)
    size = "4096 x 1024, k = 32"
    yield Row("topk_svd", size, partial(_topk, "svd"), 5.0, note="against torch.linalg.svd")
    yield Row(
        "topk_svd", size, partial(_topk, "svd_lowrank"), 0.3, note="against torch.svd_lowrank",
        figure_targets=(("residual over svd_lowrank's", 1.01),),
    )  # fmt: skip
    for name in ("sum", "dot"):
        for precision in ("float-float", "exact"):
            make_precise = partial(_precise, name, precision)
            yield Row(name, "1048576", make_precise, None, "precise", f"{precision}, against torch in float64")


MEMORY: dict[str, Callable[..., Setup]] = {
    "qr": _qr, "cholesky": _cholesky, "lu_factor": _lu_factor, "solve": _solve, "inv": _inv, "eigh": _eigh,
    "svd": _svd,
}  # fmt: skip
"""Factorisations whose workspace is measured."""
MEMORY_SIZES = ((1024, 1024), (16384, 16, 16), (200_000, 16))
