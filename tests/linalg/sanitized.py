"""Every kernel of linear algebra and of extended precision under the sanitizer, on the launches of a CPU and of a GPU.

python -m tests.linalg.sanitized [FUNCTION...]       exit status 0: nothing was found
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import metalcore
from metalcore.health.linalg.matrices import make
from metalcore.health.linalg.trials import TRIALS, Trial
from metalcore.health.routes import torch_ops_on
from metalcore.ops import functions
from metalcore.runtimes.kernel import FOLDER
from tests.linalg.cases import CASES
from tests.ops.sanitized import FAMILIES, Found, Noting

SIZES = (4, 32, 40, 150)
"""A matrix a thread in its least and its largest array, a matrix a threadgroup, blocked."""
LONG = ((700, 3), (4100, 32))
"""Tall QR, in its least and its largest array."""
IN_LANES = 260
"""Matrices from which on a thread has one."""
PRECISE = "precise"


def _norm_of_columns(linalg: Any) -> None:
    linalg.vector_norm(torch.ones(3, 40, requires_grad=True), dim=0).sum().backward()


def _gradient_of_wide_qr(linalg: Any) -> None:
    wide = torch.eye(3, 7).repeat(2, 1, 1).add(0.01).requires_grad_()
    sum(part.sum() for part in linalg.qr(wide)).backward()


def _gradient_of_mean(linalg: Any) -> None:
    a, mean = torch.eye(7, 5).add(0.01).requires_grad_(), torch.full((1, 5), 0.01, requires_grad=True)
    linalg.svd_lowrank(a, q=2, M=mean)[1].sum().backward()


def _precise(linalg: Any) -> None:
    """metalcore.precise: every function in every precision, with a gradient."""
    precise, x = metalcore.precise, torch.linspace(-1, 1, 140).reshape(2, 70).requires_grad_()
    A = torch.eye(40).repeat(2, 1, 1) + 0.01
    for precision in ("float-float", "exact"):
        precise.dot(x, x, precision=precision, pair=True)[0].sum().backward()
        precise.matmul(A[0, :33], A[0], precision=precision)
        precise.sum(torch.ones(1, 20_000), 1, precision=precision)
        precise.norm(x.detach(), 1, precision=precision)
        precise.solve(A, A[..., :2], precision=precision)
    precise.qr(A[..., :30])
    precise.cholesky(A)


EXTRAS: dict[str, Callable[[Any], Any]] = {
    "qr": _gradient_of_wide_qr,
    "svd": lambda linalg: linalg.svd(torch.eye(40, 33) + 0.01, driver="gesvd"),
    "svd_lowrank": _gradient_of_mean,
    "matmul": lambda linalg: linalg.matmul(torch.ones(40, 50), torch.ones(50)),
    PRECISE: _precise,
    "newton_schulz": lambda linalg: linalg.newton_schulz(torch.ones(2, 5, 3)),
    "geqrf": lambda linalg: [linalg.geqrf(torch.eye(150, n) + 0.01) for n in (40, 150)],
    "vector_norm": _norm_of_columns,
}
"""What no trial of the accuracy suite calls."""


def examine(name: str, families: tuple[str, ...] = FAMILIES, sizes: tuple[int, ...] = SIZES) -> Found:
    """The small case of a function with its gradient, then the trials of the accuracy suite that need it."""
    found = Found(name)
    for family in families:
        run = Noting(family, found)
        if name in CASES:
            with metalcore.mode("sanitize") as report, torch_ops_on(run):
                _with_gradient(name)
            found.findings += [f"{name} {family} case: {f}" for f in report.findings]
        if name in EXTRAS:
            with metalcore.mode("sanitize") as report, torch_ops_on(run):
                EXTRAS[name](metalcore.linalg)
            found.findings += [f"{name} {family}: {f}" for f in report.findings]
        for trial in (t for t in TRIALS.values() if name in t.needs):
            for rows, columns in _shapes(trial, sizes):
                label = f"{name} ({trial.name}) {family} {rows} x {columns}"
                with metalcore.mode("sanitize") as report, torch_ops_on(run):
                    _try(trial.name, rows, columns)
                found.findings += [f"{label}: {f}" for f in report.findings]
    return found


def _shapes(trial: Trial, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    found = []
    for n in (s for s in sizes if s <= trial.most):
        few = -(-n // 3)
        found += [{"square": (n, n), "tall": (n, few), "wide": (few, n)}[shape] for shape in trial.shapes]
    return [*found, *LONG] if "tall" in trial.shapes and trial.long else found


def _try(name: str, rows: int, columns: int) -> None:
    trial = TRIALS[name]
    kind = "random" if "random" in trial.kinds else trial.kinds[0]
    batch = IN_LANES if max(rows, columns) <= 32 else 2
    inputs = trial.inputs(make(kind, rows, columns, (batch,)), np.random.default_rng(0))
    tensors = [torch.from_numpy(np.asarray(v, np.float32)) for v in inputs]
    trial.call(SimpleNamespace(**functions("linalg")), *tensors)


def _with_gradient(name: str) -> None:
    case = CASES[name]
    tensors = [t.requires_grad_() if t.is_floating_point() else t for t in case.inputs()]
    reached = [o for o in case.ours(*tensors) if o.requires_grad]
    if reached:
        torch.autograd.grad([o.sum() for o in reached], [t for t in tensors if t.requires_grad], allow_unused=True)


def kernels() -> set[str]:
    """Every kernel in kernels/linalg, and those of extended precision."""
    files = (*(FOLDER / "linalg").glob("*.metal"), *FOLDER.glob("precise_*.metal"))
    texts = (file.read_text() for file in sorted(files))
    return {name for text in texts for name in re.findall(r"\[\[kernel\]\]\s+void\s+(\w+)\s*\(", text)}


def main() -> int:
    chosen = sys.argv[1:] or [*sorted(functions("linalg")), PRECISE]
    failed, ran = 0, set()
    for name in chosen:
        found = examine(name)
        failed += len(found.findings)
        ran |= {launch.split()[0] for launch in found.launches}
        print(f"{name}: {len(found.launches)} kernels ({', '.join(sorted(found.launches))}), ", end="")
        print("nothing found" if not found.findings else f"{len(found.findings)} findings", flush=True)
        for line in found.findings:
            print(f"  {line}")
    left = sorted(kernels() - ran)
    if left and not sys.argv[1:]:
        print(f"never launched: {', '.join(left)}")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
