"""Peak memory of cross_entropy, forward and backward, ours against torch's: each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# Arguments: which, rows, classes, dtype. Prints the bytes that the call needs beyond its inputs, at the peak.
_PROGRAM = """
import sys, json, resource
import torch
from metalcore.ops import find, function
which, rows, classes, dtype = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), getattr(torch, sys.argv[4])
run = function("cross_entropy") if which == "ours" else torch.nn.functional.cross_entropy
torch.set_num_threads(2)
def both(n):
    logits = torch.randn(n, classes).to(dtype).requires_grad_()
    target = torch.randint(classes, (n,))
    def call():
        run(logits, target).backward()
    return call
both(4)()  # code and thread pools
call = both(rows)
def current():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak of making the inputs
before = current()
call()
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
print(peak - before)
"""


def peak(which: str, rows: int, classes: int, dtype: str) -> int:
    words = [sys.executable, "-c", _PROGRAM, which, str(rows), str(classes), dtype]
    # Freed memory must go back to the system, or the call finds that of the inputs' making and needs none.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=plain)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return int(done.stdout)


def ratio(rows: int, classes: int, dtype: str) -> float:
    """Our peak over torch's."""
    return peak("ours", rows, classes, dtype) / peak("torch", rows, classes, dtype)


if __name__ == "__main__":
    print(json.dumps({dtype: ratio(512, 32000, dtype) for dtype in ("float32", "bfloat16")}))
