"""One process of benchmarks/linalg.py: the rows of one function, verified, then timed in turns, as lines of JSON.

With {"memory": [function, sizes...]} as its order: the workspace of one call instead.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.linalg_rows import MEMORY, Row, rows
from harness.row_worker import peak_of, work
from harness.timing import Contestant, interleaved


def measure(row: Row, budget: float) -> dict[str, Any]:
    setup = row.make()
    with torch.no_grad():
        ratio, figures = setup.verify()
        calls = {"ours": setup.ours, "torch": setup.peer, "numpy": setup.numpy}
        contestants = {name: Contestant(call) for name, call in calls.items() if call is not None}
        for contestant in contestants.values():
            contestant.run()
        return {"ratio": ratio, "figures": figures, "seconds": interleaved(contestants, budget=budget)}


def workspace(function: str, *shape: int) -> dict[str, float]:
    """What a call needs beyond its inputs and its results, over the bytes of the inputs, at the peak."""
    MEMORY[function](*(min(n, 64) if i < len(shape) - 2 else n for i, n in enumerate(shape))).ours()  # code, pools
    setup = MEMORY[function](*shape)
    peak, result = peak_of(setup.ours)
    results = sum(_size(t) for t in (result if isinstance(result, (tuple, list)) else (result,)))
    return {"workspace": (peak - results) / sum(_size(t) for t in setup.inputs)}


def _size(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


if __name__ == "__main__":
    work(rows, measure, workspace)
