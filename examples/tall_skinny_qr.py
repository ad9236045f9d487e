"""QR of a matrix with many rows and few columns: blocks of rows are factorised apart, and their R put together.

python examples/tall_skinny_qr.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import metalcore
from metalcore.health.linalg.ratios import qr as ratios


def seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main() -> None:
    torch.manual_seed(0)
    for rows, columns in ((100_000, 16), (1_000_000, 8)):
        A = torch.randn(rows, columns)
        Q, R = metalcore.linalg.qr(A)  # compiles the kernels
        torch.linalg.qr(A)
        ours, theirs = [], []
        for _ in range(5):  # in turns, since other programs run too
            ours.append(seconds(lambda: metalcore.linalg.qr(A)))  # noqa: B023
            theirs.append(seconds(lambda: torch.linalg.qr(A)))  # noqa: B023
        found = ratios(A, Q, R)
        print(
            f"{rows} x {columns}: {min(ours) * 1e3:.1f} ms, {min(theirs) / min(ours):.1f} times as fast as torch; "
            f"orthogonality ratio {found['orthogonality']:.2g}, residual ratio {found['residual']:.2g} (limit 30)"
        )


if __name__ == "__main__":
    main()
