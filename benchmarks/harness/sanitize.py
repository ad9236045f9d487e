"""One process of benchmarks/sanitizer.py: times `sanitize` against `fast`, or measures the memory that it adds."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metalcore
from harness.case import Case, Setup
from harness.rows import ordered
from harness.timing import Contestant, interleaved

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WARM_UP = "kernel void warm_up(device int* x, uint i [[thread_position_in_grid]]) { x[i] = i; }"


def measure_time(case: Case, setup: Setup, budget: float) -> dict[str, Any]:
    """Seconds per call of both modes, each verified first, and what sanitize mode found."""
    setup.verify(f"{case.key}, fast", Contestant(setup.ours, partial(metalcore.mode, "fast")).run)
    with metalcore.mode("sanitize") as report:
        setup.verify(f"{case.key}, sanitize", setup.ours)
    setup.reset()
    contestants = {name: Contestant(setup.ours, partial(metalcore.mode, name)) for name in ("fast", "sanitize")}
    seconds = interleaved(contestants, budget=budget)
    return {"seconds": seconds, "findings": [f"{f.kind} at line {f.line} ({f.count}x)" for f in report.findings]}


def measure_memory(setup: Setup) -> dict[str, int]:
    """Bytes of the buffers, and by how much a launch in sanitize mode raises the peak of the process."""
    buffers = sum(array.nbytes for array in arrays_of(setup.ours))
    setup.reference = np.zeros(0)  # half of the memory, and of no use here
    with metalcore.mode("sanitize"):  # what sanitize mode brings once, whatever the size of the buffers
        metalcore.Library(WARM_UP).function("warm_up")(np.zeros(32, np.int32), threads=32)
        if isinstance(setup.ours, partial):  # the machine code too
            setup.ours.func.check_launch(**setup.ours.keywords)  # type: ignore[attr-defined]
    with metalcore.mode("fast"):
        setup.ours()  # every page of every buffer is there
    gc.collect()
    CLEAR.write_text("5")  # the peak is counted from here
    before = _status("VmRSS")
    with metalcore.mode("sanitize"):
        setup.ours()
    return {"buffers": buffers, "extra": max(0, _status("VmHWM") - before)}


def arrays_of(call: Any) -> Iterator[Any]:
    """The arrays that a call binds, each once: arguments of a partial, or variables around a function."""
    found = call.args if isinstance(call, partial) else [cell.cell_contents for cell in call.__closure__ or ()]
    known = set()
    for value in found:
        if isinstance(value, np.ndarray) and value.ctypes.data not in known:
            known.add(value.ctypes.data)
            yield value


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def main() -> None:
    metalcore.set_num_threads(1)
    order, peers, wanted = ordered()
    for case in wanted:
        line: dict[str, Any] = {"case": case.key}
        try:
            setup = case.make(peers)
            line |= measure_memory(setup) if order["memory"] else measure_time(case, setup, order["budget"])
        except Exception as error:  # one broken row must not hide the others
            line["error"] = f"{type(error).__name__}: {error}"
        setup = None  # type: ignore[assignment]  # before the next one is made
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
