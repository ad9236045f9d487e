"""One small call of every function of metalcore.linalg, for the tests that concern them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import metalcore
from metalcore.ops import find, functions, nouns

N, BATCH = 3, 2


@dataclass(frozen=True)
class Case:
    """How a function is called: tensors of float64, then other arguments; `fixed` of its results is one thing only."""

    name: str
    tensors: Callable[[], tuple[torch.Tensor, ...]]
    rest: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    fixed: Callable[..., Any] = lambda *found: found
    before: Callable[[Any], Any] = lambda first: first  # of the first tensor: what makes it the kind that is asked for
    theirs: str = ""  # torch's function, where it is not torch.linalg's of the same name

    def ours(self, *tensors: Any, module: Any = None) -> tuple[Any, ...]:
        """The fixed part of the result, as a tuple."""
        return self._of(getattr(module or metalcore.linalg, self.name), tensors)

    def plain(self, *tensors: Any) -> Any:
        """The call, with these tensors as they are."""
        return getattr(metalcore.linalg, self.name)(*tensors, *self.rest, **self.named)

    def reference(self, *tensors: Any) -> tuple[Any, ...]:
        where, _, name = (self.theirs or f"linalg.{self.name}").rpartition(".")
        return self._of(getattr(getattr(torch, where) if where else torch, name), tensors)

    def _of(self, run: Any, tensors: Any) -> tuple[Any, ...]:
        first, *others = tensors
        found = run(self.before(first), *others, *self.rest, **self.named)
        if isinstance(found, (tuple, list)):
            kept = self.fixed(*found)
        else:
            kept = self.fixed(found)
        return tuple(kept) if isinstance(kept, (tuple, list)) else (kept,)

    def inputs(self, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        return tuple(t.to(dtype) if t.is_floating_point() else t for t in self.tensors())


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def general(rows: int = N, columns: int = N) -> torch.Tensor:
    """Far from singular."""
    return random(BATCH, rows, columns) + 3 * torch.eye(rows, columns, dtype=torch.float64)


def positive() -> torch.Tensor:
    half = random(BATCH, N, N)
    return half @ half.mT + torch.eye(N, dtype=torch.float64)


def factor() -> torch.Tensor:
    return torch.linalg.cholesky(positive())


def sides(columns: int = 2) -> torch.Tensor:
    return random(BATCH, N, columns, seed=1)


def _t(matrix: Any) -> Any:
    return matrix.swapaxes(-1, -2)


def _symmetric(matrix: Any) -> Any:
    """Differences are taken entry by entry, which leaves the symmetric matrices."""
    return (matrix + _t(matrix)) / 2


def _symmetric_function(values: Any, vectors: Any) -> tuple[Any, ...]:
    """Does not depend on the signs of the vectors."""
    return values, (vectors * (values * values)[..., None, :]) @ _t(vectors)


def _rebuilt(U: Any, S: Any, Vh: Any) -> tuple[Any, ...]:
    """Does not depend on the signs of the vectors."""
    return S, (U * (S * S)[..., None, :]) @ Vh


def _rebuilt_from_v(U: Any, S: Any, V: Any) -> tuple[Any, ...]:
    return _rebuilt(U, S, _t(V))


def _rebuilt_from_either(U: Any, S: Any, V: Any) -> tuple[Any, ...]:
    """torch.svd_lowrank gives V, topk_svd gives Vh."""
    return _rebuilt(U, S, V if V.shape[-2] == S.shape[-1] else _t(V))


def _reflectors() -> tuple[torch.Tensor, ...]:
    return tuple(torch.geqrf(general(4, N)))


def _low_rank() -> tuple[torch.Tensor, ...]:
    return (random(BATCH, 6, 2) @ random(BATCH, 2, 5, seed=1),)


def _factors() -> tuple[torch.Tensor, ...]:
    LU, pivots = torch.linalg.lu_factor(general())
    return LU, pivots, sides()


_KNOWN = (
    Case("cholesky", lambda: (positive(),), before=_symmetric),
    Case("cholesky_ex", lambda: (positive(),), before=_symmetric),
    Case("cholesky_solve", lambda: (sides(), factor()), theirs="cholesky_solve"),
    Case("cholesky_inverse", lambda: (factor(),), theirs="cholesky_inverse"),
    Case("qr", lambda: (general(4, N),)),
    Case("geqrf", lambda: (general(4, N),), theirs="geqrf"),
    Case("householder_product", _reflectors),
    Case("ormqr", lambda: (*_reflectors(), random(BATCH, 4, 2)), theirs="ormqr"),
    Case("lu", lambda: (general(),)),
    Case("lu_factor", lambda: (general(),)),
    Case("lu_factor_ex", lambda: (general(),)),
    Case("lu_solve", _factors),
    Case("solve", lambda: (general(), sides())),
    Case("solve_ex", lambda: (general(), sides())),
    Case("solve_triangular", lambda: (general().triu(), sides()), named={"upper": True}),
    Case("inv", lambda: (general(),)),
    Case("inv_ex", lambda: (general(),)),
    Case("det", lambda: (general(),)),
    Case("slogdet", lambda: (general(),)),
    Case("eigh", lambda: (positive(),), fixed=_symmetric_function, before=_symmetric),
    Case("eigvalsh", lambda: (positive(),), before=_symmetric),
    Case("svd", lambda: (general(4, N),), (False,), fixed=_rebuilt),
    Case("svdvals", lambda: (general(4, N),)),
    Case("svd_lowrank", _low_rank, (2,), fixed=_rebuilt_from_v, theirs="svd_lowrank"),
    Case("topk_svd", _low_rank, (2,), fixed=_rebuilt_from_either, theirs="svd_lowrank"),
    Case("pinv", lambda: (general(4, N),)),
    Case("lstsq", lambda: (general(), sides()), fixed=lambda *found: found[0]),
    Case("matrix_rank", lambda: (general(),)),
    Case("cond", lambda: (general(),)),
    Case("norm", lambda: (general(),)),
    Case("matrix_norm", lambda: (general(),)),
    Case("vector_norm", lambda: (general(),)),
    Case("matmul", lambda: (general(), sides())),
)
CASES = {case.name: case for case in _KNOWN if case.name in functions("linalg")}
UNTRIED = tuple(name for name in functions("linalg") if name not in CASES)
DIFFERENTIABLE = tuple(
    name for name in CASES if f"linalg_{name}" not in nouns("linalg") or find(f"linalg_{name}").backward is not None
)
USUAL = ("cholesky", "qr", "solve", "eigh", "svd", "matmul")
"""What the usual test run takes; `-m sweep` takes all."""
