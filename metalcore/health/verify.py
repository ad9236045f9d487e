"""One fuzzed case of an op against its float64 reference, by the error rule: at most twice (forward) and three times
(gradients) the error of plain PyTorch in the same dtype.

The error of an array is its largest difference from the reference, over the largest value of the reference. A result
that is rounded correctly from the exact one cannot be blamed, so the rule never asks for less than that rounding.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metalcore.health import cases
from metalcore.health.draw import Draw, Sample, Values, flat
from metalcore.ops import function
from metalcore.ops.base.op import Op

SEED = 20261116
FORWARD_FACTOR, GRADIENT_FACTOR = 2.0, 3.0
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}


@dataclass(frozen=True)
class Measure:
    """One output or gradient: our error, torch's, and what is allowed."""

    name: str
    error: float
    torch_error: float
    limit: float

    @property
    def passed(self) -> bool:
        return self.error <= self.limit  # a NaN fails


@dataclass(frozen=True)
class Outcome:
    """What was found for one op, dtype, route and case."""

    noun: str
    dtype: str
    route: str
    index: int
    label: str
    measures: tuple[Measure, ...]
    seconds: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem and all(m.passed for m in self.measures)

    def explain(self) -> str:
        """Why it failed, in a line."""
        wrong = [f"{m.name}: error {m.error:.3g}, allowed {m.limit:.3g}" for m in self.measures if not m.passed]
        where = f"{self.noun} {self.dtype} {self.route} case {self.index} ({self.label})"
        return f"{where}: {self.problem or '; '.join(wrong)}"


def draw_sample(op: Op, index: int, seed: int = SEED) -> Sample:
    return sample_of(op.noun, cases.find(op.noun).samples, index, seed)


def sample_of(noun: str, samples: Callable[[Draw], Sample], index: int, seed: int = SEED) -> Sample:
    """Case `index` that these `samples` draw for an op."""
    return samples(Draw(seed + sum(noun.encode()), index))


def error_of(found: Any, truth: Any) -> float:
    """Largest difference over the largest magnitude; infinite where NaN or infinity stand in other places."""
    found, truth = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    if found.shape != truth.shape:
        return math.inf
    finite = np.isfinite(truth)
    if not finite.all():
        if not np.array_equal(found[~finite], truth[~finite], equal_nan=True):
            return math.inf
        found, truth = found[finite], truth[finite]
    if not np.isfinite(found).all():
        return math.inf
    difference = np.max(np.abs(found - truth), initial=0.0)
    return float(difference / max(float(np.max(np.abs(truth))), 1e-30)) if difference else 0.0


def verify(op: Op, dtype: str, index: int, route: str = "torch", seed: int = SEED) -> Outcome:
    """Run case `index` of an op and compare."""
    return verify_sample(op, draw_sample(op, index, seed), dtype, index, route)


def verify_sample(op: Op, sample: Sample, dtype: str, index: int, route: str = "torch") -> Outcome:
    """Run these arguments; `index` is the seed of the cotangents, and the name in the report."""
    begin = time.perf_counter()
    measures: tuple[Measure, ...] = ()
    problem = ""
    try:
        measures = _measures(op, dtype, sample, ROUTES[route], index)
    except Exception as error:  # the report names it; one case must not end the others
        problem = f"{type(error).__name__}: {error}"
    return Outcome(op.noun, dtype, route, index, sample.label, measures, time.perf_counter() - begin, problem)


@dataclass(frozen=True)
class Results:
    """Outputs and gradients of one run, as float64 arrays."""

    outputs: list[Any]
    gradients: list[Any] | None
    """None: this route has no gradients."""


def _measures(op: Op, dtype: str, sample: Sample, route: Route, index: int) -> tuple[Measure, ...]:
    from metalcore.torch.replacement import originals

    reference = cases.find(op.noun).reference
    with originals():  # where overrides are on, an op must not be compared with itself
        exact = with_torch(reference, sample, dtype, True, op, index)
        plain = with_torch(reference, sample, dtype, False, op, index)
    ours = route(op, sample, dtype, index)
    rows: list[Measure] = []
    for kind, factor, found, truths, peers in (
        ("output", FORWARD_FACTOR, ours.outputs, exact.outputs, plain.outputs),
        ("gradient", GRADIENT_FACTOR, ours.gradients, exact.gradients or [], plain.gradients or []),
    ):
        if found is None:
            continue  # a route without gradients
        if len(found) != len(truths):
            raise AssertionError(f"{len(found)} {kind}s, the reference has {len(truths)}")
        for i, (value, truth, peer) in enumerate(zip(found, truths, peers, strict=True)):
            if truth is None or value is None:
                if (truth is None) != (value is None):
                    raise AssertionError(f"{kind} {i} is {'absent' if value is None else 'not expected'}")
                continue
            error, torch_error = error_of(value, truth), error_of(peer, truth)
            rows.append(Measure(f"{kind} {i}", error, torch_error, factor * max(torch_error, ROUNDOFF[dtype])))
    return tuple(rows)


def with_torch(
    run: Callable[..., Any], sample: Sample, dtype: str, exact: bool, op: Op, index: int, device: str = "cpu"
) -> Results:
    """Outputs, and gradients for random cotangents, of a function on tensors; `exact`: the same values in float64."""
    import torch

    inputs: list[Any] = []

    def made(value: Values) -> Any:
        tensor = value.torch(dtype, device)
        if value.is_float:
            tensor = tensor.to(torch.float64) if exact else tensor
            if op.gradients and value.grad:
                tensor.requires_grad_()
                inputs.append(tensor)
        return tensor

    arguments, named = sample.made(made)
    found = run(*arguments, **named)
    if op.written:
        found = written(op, arguments, named)
    outputs = flat(found)
    gradients: list[Any] = []
    reached = [o for o in outputs if o.requires_grad]
    if inputs and reached:
        random = torch.Generator().manual_seed(index)
        cotangents = [torch.randn(o.shape, generator=random).to(getattr(torch, dtype)).to(o) for o in reached]
        gradients = list(torch.autograd.grad(reached, inputs, cotangents, allow_unused=True))
    return Results([_double(o) for o in outputs], [None if g is None else _double(g) for g in gradients])


def written(op: Op, arguments: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The arrays of a call that the op writes in place: public functions have the names of the schema."""
    given = inspect.signature(function(op.noun)).bind(*arguments, **named).arguments
    return [given[name] for name in op.written]


def _double(tensor: Any) -> Any:
    return tensor.detach().cpu().double().numpy()


Route = Callable[[Op, Sample, str, int], Results]


def _torch_route(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    return with_torch(function(op.noun), sample, dtype, False, op, index)


def _numpy_route(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    arguments, named = sample.made(lambda value: value.numpy(dtype))
    found = function(op.noun)(*arguments, **named)
    if op.written:
        found = tuple(written(op, arguments, named))
    return Results([np.asarray(o, np.float64) for o in flat(found)], None)


def _mps_route(op: Op, sample: Sample, dtype: str, index: int) -> Results:
    return with_torch(function(op.noun), sample, dtype, False, op, index, "mps")


def _elsewhere(name: str) -> Route:
    """A route of metalcore.health.routes, which needs mlx or the engine's drop-ins."""

    def run(op: Op, sample: Sample, dtype: str, index: int) -> Results:
        from metalcore.health import routes

        route: Route = getattr(routes, name)
        return route(op, sample, dtype, index)

    return run


ROUTES: dict[str, Route] = {
    "torch": _torch_route,
    "numpy": _numpy_route,
    "mps": _mps_route,
    "mps-text": _elsewhere("mps_text"),
    "mlx": _elsewhere("mlx"),
    "mlx-text": _elsewhere("mlx_text"),
}
"""How a case may run. The text routes run what torch.mps.compile_shader and mx.fast.metal_kernel would get."""
