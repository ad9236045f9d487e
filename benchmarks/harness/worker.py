"""One process of the benchmark: verifies and times what it is told to, and prints a line of JSON for each."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import metalcore
from harness import opencl
from harness.case import Case, aligned
from harness.peers import Peers, copy_call
from harness.rows import cases
from harness.timing import Call, Contestant, interleaved

_PAUSE = 0.002  # OpenMP's idle threads spin for a while after each call


def _copy(size: int) -> Call:
    """A copy that reads and writes `size` bytes in all."""
    half = size // 2
    source, target = aligned(half // 4 + 1), aligned(half // 4 + 1)
    source.fill(1)
    target.fill(2)
    return copy_call(target, source, half)


def measure(case: Case, peers: Peers, threads: int, budget: float, with_opencl: bool) -> dict[str, float]:
    """Seconds per call of every contestant, each verified first."""
    import torch

    torch.set_num_threads(threads)
    metalcore.set_num_threads(threads)
    setup = case.make(peers)
    contestants = {
        "fast": Contestant(setup.ours, partial(metalcore.mode, "fast")),
        "cpp": Contestant(setup.cpp(threads)),
        "torch": Contestant(setup.torch()),
    }
    if threads == 1:
        contestants["checked"] = Contestant(setup.ours, partial(metalcore.mode, "checked"))
        bound = setup.opencl() if with_opencl else None
        if bound is not None:
            contestants["pocl"] = Contestant(bound)
    for name, contestant in contestants.items():
        whole = setup.torch_check is not None and name == "torch"
        setup.verify(f"{case.key}, {name}", setup.torch_check() if whole else contestant.run)  # type: ignore[misc]
    if threads == 1:
        contestants["copy"] = Contestant(_copy(setup.traffic))
    setup.reset()
    return interleaved(contestants, budget=budget, pause=_PAUSE if threads > 1 else 0.0)


def main() -> None:
    order = json.loads(sys.stdin.read())
    opencl.use_threads(1)
    peers = Peers(Path(order["library"]))
    wanted = {case.key: case for case in cases()}
    for key in order["keys"]:
        for threads in order["threads"]:
            line: dict[str, Any] = {"case": key, "threads": threads}
            try:
                line["seconds"] = measure(wanted[key], peers, threads, order["budget"], order["opencl"])
            except Exception as error:  # one broken row must not hide the others: the parent shows it as failed
                line["error"] = f"{type(error).__name__}: {error}"
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
