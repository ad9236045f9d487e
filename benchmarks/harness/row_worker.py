"""What the processes of benchmarks/attention.py and linalg.py share: an order comes in, lines of JSON go out."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

import metalcore

THREADS = 2


def work(
    rows: Callable[[], Iterable[Any]],
    measure: Callable[[Any, float], dict[str, Any]],
    memory: Callable[..., dict[str, Any]],
) -> None:
    """Measures the rows of the order, or the memory of one call where it asks for that."""
    order = json.loads(sys.stdin.read())
    torch.set_num_threads(THREADS)
    metalcore.set_num_threads(THREADS)
    if "memory" in order:
        print(json.dumps(memory(*order["memory"])))
        return
    for row in rows():
        if row.key not in order["rows"]:
            continue
        try:
            line = measure(row, order["budget"])
        except Exception as error:  # one broken row must not hide the others: the parent shows it as failed
            line = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps({"key": row.key} | line), flush=True)


def peak_of(call: Callable[[], Any]) -> tuple[int, Any]:
    """The bytes that a call needs at its peak beyond those that are in use, and its result."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    result = call()
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    return peak - before, result
