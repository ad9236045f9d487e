"""One process of the benchmark: verifies and times what it is told to, and prints a line of JSON for each."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import metalcore
from harness import opencl
from harness.case import Case, Setup, aligned
from harness.peers import Peers, copy_call
from harness.rows import ordered
from harness.timing import Contestant, interleaved

_PAUSE = 0.002  # OpenMP's idle threads spin for a while after each call


def _copies(size: int, peers: Peers) -> dict[str, Contestant]:
    """Copies that read and write `size` bytes in all: libc's, and a plain loop."""
    count = max(1, size // 8)
    source, target = aligned(count), aligned(count)
    source.fill(1)
    target.fill(2)
    return {
        "memcpy": Contestant(copy_call(target, source, count * 4)),
        "loop": Contestant(peers.bind("copy", 1, source, target, count)),
    }


def measure(case: Case, setup: Setup, peers: Peers, threads: int, budget: float, with_opencl: bool) -> dict[str, float]:
    """Seconds per call of every contestant, each verified first."""
    import torch

    torch.set_num_threads(threads)
    metalcore.set_num_threads(threads)
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
        check = setup.torch_check() if name == "torch" and setup.torch_check is not None else contestant.run
        setup.verify(f"{case.key}, {name}", check)
    if threads == 1:
        contestants.update(_copies(setup.traffic, peers))
    setup.reset()
    seconds = interleaved(contestants, budget=budget, pause=_PAUSE if threads > 1 else 0.0)
    if threads == 1:
        seconds["copy"] = min(seconds.pop("memcpy"), seconds.pop("loop"))
    return seconds


def main() -> None:
    opencl.use_threads(1)
    order, peers, wanted = ordered()
    for case in wanted:
        setup: Setup | None = None
        for threads in order["threads"]:
            line: dict[str, Any] = {"case": case.key, "threads": threads}
            try:
                setup = setup or case.make(peers)
                line["seconds"] = measure(case, setup, peers, threads, order["budget"], order["opencl"])
            except Exception as error:  # one broken row must not hide the others: the parent shows it as failed
                line["error"] = f"{type(error).__name__}: {error}"
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
