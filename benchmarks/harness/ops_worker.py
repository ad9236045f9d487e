"""One process of benchmarks/ops.py: the rows of one op, verified, then timed in turns; a line of JSON for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

import metalcore
from harness.timing import Contestant, interleaved
from metalcore.health import cases
from metalcore.health.verify import FORWARD_FACTOR, GRADIENT_FACTOR, ROUNDOFF, error_of
from metalcore.ops import find, function
from metalcore.ops.base.op import Benchmark, Op

THREADS = 2
Run = Callable[[], Any]


class Case:
    """The arguments of one row, and what is to be timed on them."""

    def __init__(self, op: Op, benchmark: Benchmark, dtype: str) -> None:
        torch.manual_seed(7)
        arguments, self.named = benchmark.make(torch, getattr(torch, dtype))
        self.arguments = list(arguments)
        self.dtype = dtype
        self.inputs = [
            a
            for i, a in enumerate(self.arguments)
            if isinstance(a, torch.Tensor) and a.is_floating_point() and i not in benchmark.constants
        ]
        self.has_gradient = bool(op.gradients) and bool(self.inputs)

    def forward(self, run: Callable[..., Any]) -> Run:
        def call() -> Any:
            with torch.no_grad():
                return run(*self.arguments, **self.named)

        return call

    def both(self, run: Callable[..., Any], arguments: list[Any] | None = None) -> Run:
        """Forward and backward; every output gets a gradient that was made before."""
        given = self.arguments if arguments is None else arguments
        places = [next(i for i, a in enumerate(self.arguments) if a is tensor) for tensor in self.inputs]
        inputs = [given[i].detach().requires_grad_() for i in places]
        prepared = list(given)
        for i, tensor in zip(places, inputs, strict=True):
            prepared[i] = tensor
        with torch.no_grad():
            outputs = _listed(run(*prepared, **self.named))
        torch.manual_seed(8)
        kind = getattr(torch, self.dtype)
        grads = [torch.randn(o.shape).to(kind).to(o) for o in outputs if o.is_floating_point()]

        def call() -> Any:
            found = [o for o in _listed(run(*prepared, **self.named)) if o.is_floating_point()]
            return torch.autograd.grad(found, inputs, grads)

        return call

    def widened(self) -> list[Any]:
        """The same arguments in float64."""
        return [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in self.arguments]

    def verify(self, ours: Callable[..., Any], reference: Callable[..., Any]) -> None:
        """The error rule, against float64, at full size."""
        wide = self.widened()
        with torch.no_grad():
            truth = _listed(reference(*wide, **self.named))
        self._compare("result", _listed(self.forward(ours)()), truth, self.forward(reference), FORWARD_FACTOR)
        del truth
        if self.has_gradient:
            exact = self.both(reference, wide)()
            self._compare("gradient", self.both(ours)(), exact, self.both(reference), GRADIENT_FACTOR)

    def _compare(self, what: str, found: Any, truth: Any, peer: Run, factor: float) -> None:
        for i, (value, exact, other) in enumerate(zip(found, truth, _listed(peer()), strict=True)):
            limit = factor * max(error_of(_double(other), _double(exact)), ROUNDOFF[self.dtype])
            error = error_of(_double(value), _double(exact))
            if not error <= limit:
                raise AssertionError(f"{what} {i} is off by {error:.3g}, allowed is {limit:.3g}")


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _double(tensor: Any) -> Any:
    return tensor.detach().double().numpy()


def rows(op: Op, benchmark: Benchmark, dtype: str, budget: float, with_compile: bool) -> Iterator[dict[str, Any]]:
    """Seconds of ours, torch's and torch.compile's, forward, then forward and backward."""
    case, ours, reference = Case(op, benchmark, dtype), function(op.noun), cases.find(op.noun).reference
    case.verify(ours, reference)
    for kind in ("forward", "both") if case.has_gradient else ("forward",):
        made = getattr(case, kind)
        contestants = {"ours": Contestant(made(ours)), "torch": Contestant(made(reference))}
        if with_compile:
            torch._dynamo.reset()
            contestants["compile"] = Contestant(made(torch.compile(reference, dynamic=False)))
        for contestant in contestants.values():
            contestant.run()
        yield {"kind": kind, "seconds": interleaved(contestants, budget=budget)}


def main() -> None:
    order = json.loads(sys.stdin.read())
    torch.set_num_threads(THREADS)
    metalcore.set_num_threads(THREADS)
    op = find(order["noun"])
    for benchmark in op.benchmarks:
        if order["quick"] and benchmark.elements > 1 << 20:
            continue
        for dtype in benchmark.dtypes:
            line = {"noun": op.noun, "size": benchmark.label, "dtype": dtype, "elements": benchmark.elements}
            line["target"] = benchmark.targets.get(dtype, benchmark.targets.get("*"))
            try:
                for found in rows(op, benchmark, dtype, order["budget"], order["compile"]):
                    print(json.dumps(line | found), flush=True)
            except Exception as error:  # one broken row must not hide the others: the parent shows it as failed
                problem = f"{type(error).__name__}: {str(error)[:300]}"
                print(json.dumps(line | {"kind": "forward", "error": problem}), flush=True)


if __name__ == "__main__":
    main()
