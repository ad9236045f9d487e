"""The accuracy suite of linear algebra: every function that is there, on LAPACK's kinds of matrices, by its ratios.

A kind is tried alone at every size, and together with the others in batches of 7 and of 1000, where a matrix must not
feel its neighbours. `metalcore health --linalg` runs all of it, tests/linalg/test_suite.py a thin slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from metalcore.errors import ArgumentError
from metalcore.health.linalg.graded import SCALED, relative_errors
from metalcore.health.linalg.matrices import make
from metalcore.health.linalg.trials import TRIALS, Trial
from metalcore.health.verify import Measure, Outcome
from metalcore.ops import functions

SIZES = (0, 1, 2, 3, 5, 10, 16, 31, 32, 33, 50, 64, 100, 128, 200, 512)
LONG = ((1000, 10), (10, 1000), (3, 100), (5000, 8), (4200, 32), (0, 5), (5, 0))  # rows, columns: beside the sizes
SMALL_BATCH, LARGE_BATCH = 7, 1000
BATCHES = (1, SMALL_BATCH, LARGE_BATCH)
MOST_ELEMENTS = 1 << 22  # of a batch
SEED = 5


@dataclass(frozen=True)
class Case:
    """One call: a matrix of one kind, or a batch whose matrices are of these kinds in turn."""

    rows: int
    columns: int
    batch: int | None
    kinds: tuple[str, ...]


def names() -> tuple[str, ...]:
    """The trials whose functions are there."""
    there = functions("linalg")
    found = [name for name, trial in TRIALS.items() if all(n in there for n in trial.needs)]
    return (*found, *(name for name, need in SCALED.items() if need in there))


def missing() -> tuple[str, ...]:
    return tuple(name for name in (*TRIALS, *SCALED) if name not in names())


def cases(
    trial: Trial, sizes: Sequence[int] = SIZES, batches: Sequence[int] = BATCHES, long: bool = False
) -> Iterator[Case]:
    """Calls at these sizes; `long`: those of LONG instead."""
    for rows, columns in _long_shapes(trial) if long else _shapes(trial, sizes):
        size = max(rows, columns)
        if rows * columns == 0:
            yield Case(rows, columns, None, ("random" if "random" in trial.kinds else trial.kinds[0],))
            yield Case(rows, columns, 3, ("random" if "random" in trial.kinds else trial.kinds[0],))
            continue
        kinds = tuple(k for k in trial.kinds if trial.takes(k, size))
        if 1 in batches:
            yield from (Case(rows, columns, None, (kind,)) for kind in kinds)
        if SMALL_BATCH in batches:
            for start in range(0, len(kinds), SMALL_BATCH):
                yield Case(rows, columns, SMALL_BATCH, kinds[start : start + SMALL_BATCH])
        large = min(LARGE_BATCH, MOST_ELEMENTS // (rows * columns))
        if LARGE_BATCH in batches and large > 2 * SMALL_BATCH and not long:
            yield Case(rows, columns, large, kinds)


def _shapes(trial: Trial, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    for n in sizes:
        if n > trial.most:
            continue
        few = -(-n // 3)
        every = {"square": (n, n), "tall": (n, few), "wide": (few, n)}
        yield from dict.fromkeys(every[shape] for shape in trial.shapes)


def _long_shapes(trial: Trial) -> list[tuple[int, int]]:
    if not trial.long:
        return []
    return [s for s in LONG if "tall" in trial.shapes and ("wide" in trial.shapes or s[0] >= s[1])]


def run_case(trial: Trial, case: Case, route: str = "numpy", seed: int = SEED) -> list[Outcome]:
    """An outcome for each kind in the case."""
    A = _matrices(case, seed)
    random = np.random.default_rng([seed, case.rows, case.columns])
    inputs = trial.inputs(A, random)
    begin = time.perf_counter()
    try:
        found = call(trial.call, inputs, route)
    except Exception as error:  # the report names it; one case must not end the others
        took = time.perf_counter() - begin
        problem = f"{type(error).__name__}: {error}"
        return [_outcome(trial, case, kind, route, (), took, problem) for kind in case.kinds]
    took = time.perf_counter() - begin
    outcomes = []
    for i, kind in enumerate(case.kinds):
        part: Any = ... if case.batch is None else slice(i, None, len(case.kinds))
        ratios = trial.ratios(*(value[part] for value in inputs), *(value[part] for value in found))
        measures = tuple(Measure(name, value, 0.0, trial.limit) for name, value in ratios.items())
        outcomes.append(_outcome(trial, case, kind, route, measures, took / len(case.kinds), ""))
    return outcomes


def run(
    name: str,
    sizes: Sequence[int] = SIZES,
    batches: Sequence[int] = BATCHES,
    route: str = "numpy",
    seed: int = SEED,
    long: bool = False,
) -> Iterator[Outcome]:
    """The outcomes of a trial at these sizes; `long`: at those of LONG instead."""
    if name in SCALED:
        yield from () if long else _scaled(name, sizes, route, seed)
        return
    trial = TRIALS[name]
    for case in cases(trial, sizes, batches, long):
        yield from run_case(trial, case, route, seed)


def _scaled(name: str, sizes: Sequence[int], route: str, seed: int) -> Iterator[Outcome]:
    """Small singular values keep all their digits where rows or columns are scaled by 30 powers of ten."""
    for n in sizes:
        if n < 2:
            continue
        for side in ("rows", "columns"):
            begin = time.perf_counter()
            measures: tuple[Measure, ...] = ()
            problem = ""
            try:
                errors = relative_errors(name, n, side, lambda run, A: call(run, (A,), route), seed)
                measures = tuple(Measure(what, error, 0.0, 1e-5) for what, error in errors.items())
            except Exception as error:  # as above
                problem = f"{type(error).__name__}: {error}"
            took = time.perf_counter() - begin
            yield Outcome(f"linalg.{name}", "float32", route, n, f"scaled_{side} {n} x {n}", measures, took, problem)


def _matrices(case: Case, seed: int) -> Any:
    shape = (case.rows, case.columns)
    if case.batch is None:
        return make(case.kinds[0], *shape, seed=seed)
    values = np.empty((case.batch, *shape))
    for i, kind in enumerate(case.kinds):
        part = values[i :: len(case.kinds)]
        part[:] = make(kind, *shape, (len(part),), seed)
    return values


def _outcome(
    trial: Trial, case: Case, kind: str, route: str, measures: tuple[Measure, ...], took: float, problem: str
) -> Outcome:
    batch = "" if case.batch is None else f"{case.batch} x "
    label = f"{kind} {batch}{case.rows} x {case.columns}"
    return Outcome(f"linalg.{trial.name}", "float32", route, case.rows, label, measures, took, problem)


def kind_of(outcome: Outcome) -> str:
    return outcome.label.partition(" ")[0]


# --- routes ----------------------------------------------------------------------------------------------------------
def call(run: Callable[..., Any], inputs: Sequence[Any], route: str) -> tuple[Any, ...]:
    """What a function of the library gives for arrays of a route's framework; the results are NumPy's."""
    if route not in ROUTES:
        raise ArgumentError(f"there is no route {route!r}; there are {', '.join(ROUTES)}")
    around, convert, back = ROUTES[route]
    with around():
        found = run(SimpleNamespace(**functions("linalg")), *(convert(value) for value in inputs))
    return tuple(back(value) for value in found)


def _tensor(device: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        import torch

        kind = np.int32 if value.dtype.kind == "i" else np.float32
        return torch.from_numpy(np.ascontiguousarray(value, kind)).to(device)

    return convert


def _array(value: Any) -> Any:
    return np.ascontiguousarray(value, np.int32 if value.dtype.kind == "i" else np.float32)


def _mlx_array(value: Any) -> Any:
    import mlx.core as mx

    return mx.array(_array(value))


def _from_torch(value: Any) -> Any:
    return value.detach().cpu().numpy()


def _torch_on(make_runtime: Callable[[], Any]) -> Callable[[], AbstractContextManager[Any]]:
    def around() -> AbstractContextManager[Any]:
        from metalcore.health.routes import torch_ops_on

        return torch_ops_on(make_runtime())

    return around


def _apple() -> Any:
    from metalcore.arrays.torch import TorchArrays
    from metalcore.runtimes.cpu import CpuRuntime

    return CpuRuntime(TorchArrays(), "apple")


def _text_mps() -> Any:
    from metalcore.health.routes import text_mps

    return text_mps()


def _mlx_text() -> AbstractContextManager[Any]:
    from metalcore.health.routes import text_mlx
    from metalcore.mlx.call import using

    return using(text_mlx())


Route = tuple[Callable[[], AbstractContextManager[Any]], Callable[[Any], Any], Callable[[Any], Any]]
ROUTES: dict[str, Route] = {
    "numpy": (nullcontext, _array, np.asarray),
    "torch": (nullcontext, _tensor("cpu"), _from_torch),
    "apple": (_torch_on(_apple), _tensor("cpu"), _from_torch),
    "mps": (nullcontext, _tensor("mps"), _from_torch),
    "mps-text": (_torch_on(_text_mps), _tensor("cpu"), _from_torch),
    "mlx": (nullcontext, _mlx_array, np.array),
    "mlx-text": (_mlx_text, _mlx_array, np.array),
}
"""Those of the fused ops, and "apple": the launches that a GPU would get, on the engine."""
