"""One process of benchmarks/linalg.py: the rows of one function, verified, then timed in turns, as lines of JSON.

With {"memory": [function, sizes...]} as its order: the workspace of one call instead.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from typing import Any

import torch

import metalcore
from harness.linalg_rows import MEMORY, Row, rows
from harness.timing import Contestant, interleaved

THREADS = 2


def measure(row: Row, budget: float) -> dict[str, Any]:
    setup = row.make()
    with torch.no_grad():
        ratio, figures = setup.verify()
        calls = {"ours": setup.ours, "torch": setup.peer, "numpy": setup.numpy}
        contestants = {name: Contestant(call) for name, call in calls.items() if call is not None}
        for contestant in contestants.values():
            contestant.run()
        return {"ratio": ratio, "figures": figures, "seconds": interleaved(contestants, budget=budget)}


def workspace(function: str, *shape: int) -> float:
    """What a call needs beyond its inputs and its results, over the bytes of the inputs, at the peak."""
    MEMORY[function](*(min(n, 64) if i < len(shape) - 2 else n for i, n in enumerate(shape))).ours()  # code, pools
    setup = MEMORY[function](*shape)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak of making the inputs
    before = _resident()
    result = setup.ours()
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    results = sum(_size(t) for t in (result if isinstance(result, (tuple, list)) else (result,)))
    return (peak - before - results) / sum(_size(t) for t in setup.inputs)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _size(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def main() -> None:
    order = json.loads(sys.stdin.read())
    torch.set_num_threads(THREADS)
    metalcore.set_num_threads(THREADS)
    if "memory" in order:
        function, *shape = order["memory"]
        print(json.dumps({"workspace": workspace(function, *shape)}))
        return
    for row in rows():
        if row.key not in order["rows"]:
            continue
        try:
            line = measure(row, order["budget"])
        except Exception as error:  # one broken row must not hide the others: the parent shows it as failed
            line = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps({"key": row.key} | line), flush=True)


if __name__ == "__main__":
    main()
