"""One process of benchmarks/attention.py: rows verified, then timed in turns, as lines of JSON.

With {"memory": [dtype, heads, rows, depth]} as its order: the peak of one forward and backward pass instead.
"""

from __future__ import annotations

from typing import Any

import torch

import metalcore
from harness.attention_rows import SDPA, Row, Setup, rows
from harness.row_worker import peak_of, work
from harness.timing import Contestant, interleaved
from metalcore.health.verify import FORWARD_FACTOR, GRADIENT_FACTOR, ROUNDOFF, error_of
from metalcore.ops import function


def verify(setup: Setup, dtype: str, kind: str) -> dict[str, float]:
    """The errors of our result or gradients against float64; one beyond the rule is an error of the row."""
    names, factor = (("result",), FORWARD_FACTOR) if kind == "forward" else (("dq", "dk", "dv"), GRADIENT_FACTOR)
    found, plain, exact = (
        [side.usual(x).double().numpy() for x in ([side.forward()] if kind == "forward" else side.both())]
        for side in (setup.ours, setup.plain, setup.exact)
    )
    errors = {}
    for name, ours, other, truth in zip(names, found, plain, exact, strict=True):
        error, limit = error_of(ours, truth), factor * max(error_of(other, truth), ROUNDOFF[dtype])
        if not error <= limit:
            raise AssertionError(f"{name} is off by {error:.3g}, allowed is {limit:.3g}")
        errors[name] = error
    return errors


def measure(row: Row, budget: float) -> dict[str, Any]:
    setup = row.make(getattr(torch, row.dtype))
    errors = verify(setup, row.dtype, row.kind)
    sides = {"ours": setup.ours, **setup.peers}
    calls = {name: side.forward if row.kind == "forward" else side.backward() for name, side in sides.items()}
    with metalcore.explain() as noted:
        calls["ours"]()
    contestants = {name: Contestant(call) for name, call in calls.items()}
    seconds = interleaved(contestants, budget=budget)
    return {"errors": errors, "seconds": seconds, "variants": [name for call in noted.rows for name in call.kernels]}


def peak(dtype: str, heads: int, length: int, depth: int) -> dict[str, int]:
    """Bytes of a forward and backward pass at their peak, and those of its inputs, output and gradients."""
    run = function(SDPA)

    def both(n: int) -> int:
        q, k, v = (torch.randn(1, heads, n, depth, dtype=getattr(torch, dtype)).requires_grad_() for _ in range(3))
        grad = torch.randn(1, heads, n, depth).to(q.dtype)
        out = run(q, k, v, is_causal=True)
        grads = torch.autograd.grad(out, (q, k, v), grad)
        return sum(x.numel() * x.element_size() for x in (q, k, v, grad, out, *grads))

    both(1024)  # code and thread pools; enough rows for the kernels of the large one
    most, arrays = peak_of(lambda: both(length))
    return {"peak": most, "arrays": arrays}


if __name__ == "__main__":
    work(rows, measure, peak)
